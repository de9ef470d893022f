/*
 * Schedulers, the row of the scheduler's lease, and the server's sessions that write batches. A session outlives the connection that
 * its scheduler has given up: what was sent may be executed later. A batch is a transaction of three steps (the epoch is checked and
 * its row locked; the items are written; the commit), between which everything else can happen.
 *
 * Each of these definitions makes a variant that must fail: NO_EPOCH_CHECK, NO_LOCK, SAME_REIGN (it plans on after an
 * unknown outcome), SAME_NAME (it does not change its name then), NO_EXPIRY (what a dead leader holds is never free).
 */
#define SCHEDULERS 2
#define LIMIT 1        /* jobs in flight at most */
#define JOBS 2

/* scheduler_lease; after an unknown outcome a scheduler comes back under another name */
byte leader;           /* 0: nobody */
byte epoch;
bool expired = true;
byte sharers;          /* transactions that hold the row FOR SHARE */

byte in_flight;        /* work items, as committed */
byte dispatched;       /* jobs that were ever dispatched */
byte last_writer;      /* the epoch of the last batch */
byte name[SCHEDULERS]; /* as each calls itself now */

/* How often what may happen at any time does happen. */
#ifndef LOST
#define LOST 2
#endif
#ifndef EXPIRIES
#define EXPIRIES 2
#endif
byte expiries = EXPIRIES, lost_replies = LOST, rollbacks = 1;
/* The leader's session is found gone before its lease has ended, whether the leader lives or not. */
#ifndef GONE
#define GONE 1
#endif
byte gone = GONE;

/* Connections: a scheduler takes its next one when it has given one up. */
#define CONNECTIONS 3
chan wire[6] = [1] of { byte, byte, byte };  /* name, epoch, what it saw in flight */
chan reply[6] = [1] of { bool };

#define finished (dispatched == JOBS && in_flight == 0)

/* dispatch */
proctype Session(byte connection) {
  byte as, reign, seen;
  bool allowed;
end:
  do
  :: atomic { wire[connection] ? as, reign, seen ->
#ifdef NO_EPOCH_CHECK
       allowed = true
#else
       allowed = (leader == as && epoch == reign && !expired)
#endif
#ifndef NO_LOCK
       ; sharers = sharers + allowed
#endif
     };
     atomic {
       if
       :: allowed ->
            if
            :: seen < LIMIT && dispatched < JOBS ->
                 in_flight++; dispatched++;
                 assert(in_flight <= LIMIT);
                 assert(reign >= last_writer);
                 last_writer = reign
            :: rollbacks > 0 -> rollbacks--
            :: else
            fi
       :: else
       fi;
#ifndef NO_LOCK
       sharers = sharers - allowed;
#endif
       reply[connection] ! allowed;
       as = 0; reign = 0; seen = 0; allowed = false
     }
  od
}

proctype Scheduler(byte me) {
  byte reign, old, at = me * CONNECTIONS;
  bool ok;
  name[me] = me + 1;
end:
  do
  /* lead: an update of the row, which waits for those that hold it */
  :: atomic { reign == 0 && !finished && sharers == 0 && (expired || leader == name[me] || gone > 0) ->
       if :: expired || leader == name[me] :: else -> gone-- fi;
       if :: leader == name[me] && !expired :: else -> epoch++ fi;
       leader = name[me]; expired = false; reign = epoch }

  /* it finds that another leads, or that its own clock has passed the lease's end */
  :: atomic { reign != 0 && (expired || leader != name[me]) -> reign = 0 }

  /* a tick: it reads, plans, and sends the batch */
  :: atomic { reign != 0 && in_flight < LIMIT && dispatched < JOBS -> wire[at] ! name[me], reign, in_flight };
     if
     :: atomic { reply[at] ? ok -> if :: ok :: else -> reign = 0 fi; ok = false }
     /* its process was killed and started again, or the connection broke: the outcome is unknown */
     :: atomic { lost_replies > 0 -> lost_replies--; at++
#ifndef SAME_REIGN
          ; old = reign; reign = 0
#ifndef SAME_NAME
          ; name[me] = name[me] + SCHEDULERS
#endif
#endif
        };
#ifndef SAME_REIGN
        /* resign: waits for the row; a killed one sends none */
        if
        :: atomic { sharers == 0 -> if :: epoch == old -> leader = 0; expired = true :: else fi }
        :: skip
        fi;
        old = 0
#endif
     fi
  od
}

active proctype Clock() {
end:
  do
  :: atomic { expiries > 0 && !expired && !finished -> expiries--; expired = true }
  /* who is no more does not renew */
#ifndef NO_EXPIRY
  :: atomic { !expired && !finished && leader != name[0] && leader != name[1] -> expired = true }
#endif
  od
}

/* jobs end */
active proctype Worker() {
end:
  do
  :: atomic { in_flight > 0 -> in_flight-- }
  od
}

init {
  atomic {
    run Session(0); run Session(1); run Session(2); run Session(3); run Session(4); run Session(5);
    run Scheduler(0); run Scheduler(1)
  }
}

ltl jobs_run { <> finished }
