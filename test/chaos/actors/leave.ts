// Loaded before anything else into each process: it is over when it has stopped, or when nobody is left to tell it to.
process.on('disconnect', () => process.exit(0));
