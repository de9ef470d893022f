/*
 * ctx.transaction: a handler's writes and its settlement in one transaction, whose COMMIT may get no answer. The server's session is a
 * process of its own: it may commit, or roll back, after its client has given the connection up.
 *
 * Each of these definitions makes a variant that must fail: UNFENCED (the transaction commits whatever the settlement said),
 * SEPARATE (the settlement is a statement of its own, behind the commit), SETTLES (after an unknown outcome the node settles, in
 * place of asking first whether it still holds the lease).
 */
#define NODES 2
#define CONNECTIONS 3

byte token = 0;        /* of the work item; 0: ready */
byte drawn;
bool locked;           /* a transaction that has not ended has removed the work item */
bool done;
byte settled_by;       /* HISTORY's token */
byte effects;          /* what handlers wrote, as committed */

/* How often what may happen at any time does happen. */
#ifndef LOST
#define LOST 2
#endif
#ifndef EXPIRIES
#define EXPIRIES 2
#endif
byte lost_replies = LOST, expiries = EXPIRIES, rollbacks = 1;

mtype = { committed, rolled_back, refused };
chan wire[6] = [1] of { byte };
chan reply[6] = [1] of { mtype };

proctype Session(byte connection) {
  byte mine;
  bool fenced;
end:
  do
  :: wire[connection] ? mine ->
     /* the handler's writes; then settle, which waits for whoever has the item locked */
     atomic { !locked ->
       fenced = (!done && token == mine);
#ifndef SEPARATE
       locked = fenced
#endif
     };
     atomic {
       if
#ifdef UNFENCED
       ::
            effects++;
            if :: fenced -> done = true; settled_by = mine; token = 0; locked = false :: else fi;
            reply[connection] ! committed
#else
#ifdef SEPARATE
       :: fenced -> effects++; reply[connection] ! committed
#else
       :: fenced -> effects++; done = true; settled_by = mine; token = 0; locked = false; reply[connection] ! committed
#endif
       :: fenced && rollbacks > 0 -> rollbacks--; locked = false; reply[connection] ! rolled_back
       :: !fenced -> reply[connection] ! refused
#endif
       fi;
       assert(effects <= 1);
       mine = 0; fenced = false
     }
  od
}

/* settle, in a statement of its own */
inline settle() {
  if
  :: !done && token == mine -> done = true; settled_by = mine; token = 0; assert(effects == 1)
  :: else
  fi
}

proctype Node(byte me) {
  byte mine, at = me * CONNECTIONS;
  mtype fate;
end:
  do
  :: atomic { mine == 0 && !done && token == 0 -> drawn++; token = drawn; mine = drawn }   /* claim */
  :: mine != 0 ->
     wire[at] ! mine;
     if
     :: reply[at] ? fate
     :: atomic { lost_replies > 0 -> lost_replies--; at++ };
#ifdef SETTLES
        atomic { !locked -> settle(); fate = refused }
#else
        /* extend: says whether the lease is still held, and waits for whoever has the item locked */
        atomic { !locked ->
          if
          :: !done && token == mine -> fate = rolled_back
          :: settled_by == mine -> fate = committed; assert(effects == 1)
          :: else -> fate = refused
          fi }
#endif
     fi;
#ifdef SEPARATE
     atomic { if :: fate == committed -> settle() :: else fi };
#endif
     atomic { if :: fate == rolled_back :: else -> mine = 0 fi; fate = 0 }
  od
}

/* reap passes over what is locked; the lease of a killed node expires like any other */
active proctype Clock() {
end:
  do
  :: atomic { expiries > 0 && token != 0 && !locked -> expiries--; token = 0 }
  od
}

active proctype Monitor() { atomic { done && effects != 1 -> assert(effects == 1) } }

init {
  atomic {
    run Session(0); run Session(1); run Session(2); run Session(3); run Session(4); run Session(5);
    run Node(0); run Node(1)
  }
}

ltl job_ends { <> done }
