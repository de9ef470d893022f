/*
 * One job, its work item, and the nodes that lease it. Each atomic block is one SQL function, hence one transaction; the comments name
 * it. Whatever a node sends may be late: between its claim and its settlement everything else can happen.
 *
 * Not modelled: several jobs in one statement (test/interleavings has their locks), and that a random token could repeat.
 *
 * Each of these definitions makes a variant that must fail: NO_FENCE, STALE_EXTEND, KEEPS_TOKEN, TWO_STATEMENTS, TWO_STATEMENTS with
 * EDGE, POISON with NO_CRASH_LIMIT, LATE_LIMIT, POISON with SPARES and FORGETS. EDGE, POISON and SPARES without these must hold.
 */
#define NODES 2
#define MAX_TRIES 2
#define MAX_CRASHES 2

mtype = { pending, delayed, done, dead, cancelled, none, ready, running };

mtype row = pending;   /* QUEUE: pending or delayed; else where the terminal row stands */
mtype item = none;     /* WORK_QUEUE */
byte token;            /* lock_token; 0 is null */
byte last_token;       /* what HISTORY, DEAD_LETTER or QUEUE keep of the last accepted settlement */
bool expired;          /* lock_timeout has passed, by the database's clock */
bool stop;             /* a cancellation was asked for while it ran */
byte tries, crashes;
bool suspect;          /* it was lost with its node */
bool alive[NODES];     /* the node's row: the incarnation that it knows of has not ended */
bool fresh = true;     /* EDGE: the job became pending, and no tick has looked at it yet */

byte mine[NODES];       /* what each node believes to hold */
byte unanswered[NODES]; /* a claim whose reply was lost */

/* What only the properties know. */
byte newest;           /* the token that was drawn last */
byte owner;            /* who drew it */
bool settled, counted; /* by the newest token: a settlement was accepted; a try or a crash was counted */
byte endings;          /* terminal rows ever made */

/* How often what may happen at any time does happen. */
#ifndef LOST
#define LOST 1
#endif
#ifndef RESETS
#define RESETS 1
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef SNOOZES
#define SNOOZES 0
#endif
#ifndef RELEASES
#define RELEASES 0
#endif
byte lost_replies = LOST, resets = RESETS, cancels = CANCELS, snoozes = SNOOZES, releases = RELEASES;

#define ended (row == done || row == dead || row == cancelled)
#ifdef KEEPS_TOKEN
#define whole true
#else
#define whole ((item == running) == (token != 0))
#endif
#define sound ((item == none || row == pending) && endings <= 1 && whole && (ended || (crashes < MAX_CRASHES && tries < MAX_TRIES)))

#ifdef NO_FENCE
#define holds(t) (item == running)
#else
#define holds(t) (item != none && token == t)
#endif

#define unused(t) (token != t && last_token != t && mine[0] != t && mine[1] != t && unanswered[0] != t && unanswered[1] != t)

inline draw(me) {
  if
  :: unused(1) -> newest = 1
  :: else -> if
     :: unused(2) -> newest = 2
     :: else -> if
        :: unused(3) -> newest = 3
        :: else -> if
           :: unused(4) -> newest = 4
           :: else -> if :: unused(5) -> newest = 5 :: else -> newest = 6 fi
           fi
        fi
     fi
  fi;
  token = newest; owner = me; settled = false; counted = false
}

inline leave_item(to) { item = to; token = 0; expired = false; stop = false; suspect = (to == ready && suspect) }
/* what no longer matters is forgotten: fewer states */
inline end(how) {
  row = how; leave_item(none); endings++;
  lost_replies = 0; resets = 0; cancels = 0; snoozes = 0; releases = 0; newest = 0; owner = 0; tries = 0; crashes = 0; suspect = false
}
inline count() { assert(!counted); counted = true }

/* crash: a lease is lost with its holder */
inline crash() {
  count();
  crashes++;
  if
  :: stop -> end(cancelled)
#ifdef NO_CRASH_LIMIT
  :: else -> if :: crashes > 1 -> crashes = 1 :: else fi; leave_item(ready)
#else
#ifdef LATE_LIMIT
  :: !stop && crashes > MAX_CRASHES -> end(dead)
#else
  :: !stop && crashes >= MAX_CRASHES -> end(dead)
#endif
#ifdef KEEPS_TOKEN
  :: else -> item = ready; expired = false
#else
  :: else -> leave_item(ready)
#endif
#endif
  fi
}

/* end_node: a suspect is charged, and so is what was no suspect; but not beside a suspect, which only makes it one (SPARES) */
inline lose() {
  if
  :: crash(); suspect = !ended
#ifdef SPARES
#ifdef FORGETS
  :: !suspect && !stop -> leave_item(ready)
#else
  :: !suspect && !stop -> leave_item(ready); suspect = true
#endif
  :: !suspect && stop -> end(cancelled)
#endif
  fi
}

/* settle: the item goes where its token matches; what follows comes from the row that went */
inline settle(me, outcome) {
  assert(mine[me] == newest && owner == me);
  assert(!settled);
  settled = true;
  last_token = mine[me];
  if
  :: outcome == done -> end(done)
  :: outcome == dead -> count(); end(dead)
  :: outcome != done && outcome != dead && stop -> end(cancelled)
  :: outcome == delayed && !stop -> if :: snoozes > 0 -> snoozes-- :: else fi; row = delayed; leave_item(none)             /* snooze */
  :: outcome == pending && !stop ->                                            /* retry */
       count();
       tries++;
       if
       :: tries >= MAX_TRIES -> end(dead)
       :: else -> row = delayed; leave_item(none)
       fi
  fi
}

inline release(t) {
  if
  :: holds(t) && item == running && stop -> end(cancelled)
  :: holds(t) && item == running && !stop -> leave_item(ready)
  :: else
  fi
}

proctype Node(byte me) {
  mtype outcome;
  bool registered, again, extended;

  do
  /* register_node: takes back what its last incarnation held */
  :: atomic { !ended && mine[me] == 0 && !(registered && alive[me]) ->
       if :: item == running && owner == me -> lose() :: else fi;
       alive[me] = true; registered = true; unanswered[me] = 0 }

  /* release_claim */
  :: atomic { unanswered[me] != 0 -> release(unanswered[me]); unanswered[me] = 0 }

  /* claim */
  :: atomic { mine[me] == 0 && unanswered[me] == 0 && registered && alive[me] && item == ready ->
#ifdef KEEPS_TOKEN
       if
       :: token == 0 -> draw(me)
       :: else -> owner = me; settled = false; counted = false
       fi;
#else
       draw(me);
#endif
       item = running; again = false; extended = false; outcome = none;
       if
       :: mine[me] = token
       :: lost_replies > 0 -> lost_replies--; unanswered[me] = token
       fi }

#ifndef POISON
  /* extend */
  :: atomic { mine[me] != 0 && !extended && !again ->
       extended = true;
       if
#ifdef STALE_EXTEND
       :: item == running -> expired = false; assert(mine[me] == newest && owner == me)
#else
       :: holds(mine[me]) -> expired = false; assert(mine[me] == newest && owner == me)
#endif
       :: else -> mine[me] = 0
       fi }

  /* release: an orderly stop */
  :: atomic { mine[me] != 0 && releases > 0 && !again -> releases--; release(mine[me]); mine[me] = 0 }

#ifdef TWO_STATEMENTS
  /* the job is marked for its retry, and the item goes in a statement of its own */
  :: mine[me] != 0 && outcome == none && tries + 1 < MAX_TRIES && !stop ->
       atomic {
         if
         :: holds(mine[me]) -> tries++; count(); row = delayed
         :: else -> mine[me] = 0
         fi };
       atomic {
         if :: mine[me] != 0 && holds(mine[me]) -> leave_item(none) :: else fi;
         mine[me] = 0 }
#endif

  /* settle: its reply may be lost, and then it is repeated */
  :: atomic { mine[me] != 0 ->
       if
       :: again
       :: !again -> outcome = done
       :: !again -> outcome = dead
#ifndef TWO_STATEMENTS
       :: !again -> outcome = pending
#endif
       :: !again && snoozes > 0 -> outcome = delayed
       fi;
       if
       :: holds(mine[me]) ->
            settle(me, outcome);
            if
            :: mine[me] = 0
            :: lost_replies > 0 -> lost_replies--; again = true
            fi
       :: else -> mine[me] = 0 /* stale; or repeated, where last_token is its own */
       fi }
#endif

  /* kill -9; the attempts of a job are bounded, so this needs no bound of its own */
  :: atomic { mine[me] != 0 -> mine[me] = 0; unanswered[me] = 0; registered = false; again = false }
  :: ended && mine[me] == 0 -> break
  od
}

/* It always advances in the end: what a dead or frozen node holds expires. */
active proctype Clock() {
  do
  :: atomic { item == running && !expired -> expired = true }
  :: ended -> break
  od
}

active proctype Scheduler() {
  do
  :: atomic { row == delayed -> row = pending; fresh = true }              /* promote */
#ifdef EDGE
  :: atomic { row == pending && fresh -> fresh = false; if :: item == none -> item = ready :: else fi }
#else
  :: atomic { row == pending && item == none -> item = ready }             /* dispatch */
#endif
  :: atomic { item == running && expired -> crash() }                      /* reap, by scheduler or node: a steal */
  :: ended -> break
  od
}

active proctype Operator() {
  byte whom;
  do
  :: atomic { resets > 0 && !ended ->                                      /* reset_node */
       resets--;
       if :: whom = 0 :: whom = 1 fi;
       alive[whom] = false;
       if :: item == running && owner == whom -> lose() :: else fi;
       whom = 0 }
  :: atomic { cancels > 0 && !ended ->                                     /* cancel */
       cancels--;
       if :: item == running -> stop = true :: else -> end(cancelled) fi }
  :: break
  od
}

init { atomic { run Node(0); run Node(1) } }

#ifndef UNWATCHED
active proctype Monitor() { atomic { !sound -> assert(sound) } }
#endif

ltl job_ends { <> ended }
