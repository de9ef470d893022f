/** Reports whether the day of an ISO 8601 time exists. Date parses the 31st of February as the 3rd of March. */
export function isInCalendar(iso: string): boolean {
  const day = new Date(`${iso.slice(0, 10)}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().slice(0, 10) === iso.slice(0, 10);
}
