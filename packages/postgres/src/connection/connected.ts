/**
 * Awaits a connection. The error of one that fails has a message: Node leaves it empty for a host with several addresses, such as
 * `localhost` for ::1 and 127.0.0.1.
 */
export async function connected<Client>(connecting: Promise<Client>): Promise<Client> {
  try {
    return await connecting;
  } catch (error) {
    if (error instanceof AggregateError && error.message === '')
      error.message = error.errors.map(({ message }: Error) => message).join('; ');
    throw error;
  }
}
