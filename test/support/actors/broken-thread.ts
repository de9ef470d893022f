// Stands for a heartbeat's thread that a bundler has lost: it never gets to its first word.
throw new Error('this thread does not start');
