/* A lease on one database: two clients, one row, a reaper. lib/doc/protocol.md tells the protocol to people. Explored whole by
 * spin: tests/model/run.
 *
 * Time is not counted. The database lets a row go only when its owner has ceased to trust it: trust counts from before the request,
 * and both clocks run at the same pace. Trust may end at any moment, also before the reply comes: then the owner was paused, and does
 * not know it; what it does with its transaction is for the guard to refuse. Replies may be lost, and so may releases.
 *
 * What is promised: no two clients trust at a time; tokens rise in the order of the grants; no data are committed under a guard after
 * those of a later owner; and what is granted stays until its owner has let go of it, or trust is over.
 *
 * Broken forms, each of which must be refuted: TAKE_IN_TWO_STEPS, EARLY_EXPIRY (the taker's own clock decides), TRUST_FROM_REPLY,
 * RENEWAL_UPSERT, RELEASE_BY_NAME, TRUSTS_WHILE_RELEASING, TOKEN_BEFORE_WAIT, TOKEN_NOT_DRAWN, GUARD_WITHOUT_LOCK, GUARD_IGNORED,
 * REAPER_WITHOUT_RECHECK.
 */
#define CLIENTS 2
#ifndef ROUNDS
#define ROUNDS 2 /* locks of each client */
#endif
#define NOBODY 0

byte term = NOBODY;  /* the row's; a client's is never used twice */
byte locker;         /* 1 and 2: whose transaction has the row; 0: nobody's */
byte terms;          /* so many were made */
byte drawn;          /* the row's token */
byte granted;        /* the highest that a client was told */
byte committed;      /* the token of the latest data */

byte mine[CLIENTS];
byte token[CLIENTS];
bool trusts[CLIENTS]; /* the database's promise to it stands */
bool held[CLIENTS];   /* it was told that it has the lock, and not yet that it lost it */

#define owns(c) (held[c] && trusts[c])
#define row_is_free(c) (locker == 0 || locker == (c) + 1)
#ifdef EARLY_EXPIRY
#define over true
#else
#define over (!(trusts[0] && mine[0] == term) && !(trusts[1] && mine[1] == term))
#endif

/* The client hears of its grant: here it begins to own the lock, unless trust is over by now. */
inline hears(c) {
  atomic {
#ifdef TRUST_FROM_REPLY
    trusts[c] = true;
#endif
    if
    :: trusts[c] ->
      held[c] = true;
      assert(!owns(1 - c));         /* at most one owner */
      assert(token[c] > granted);   /* tokens rise in the order of the grants */
      assert(term == mine[c]);      /* what is granted stays */
      granted = token[c]
    :: else
    fi
  }
}

/* One statement; it waits for a transaction that has the row. */
inline take(c, got) {
  got = false;
  atomic { terms++; mine[c] = terms; trusts[c] = false };
#ifdef TOKEN_BEFORE_WAIT
  atomic { drawn++; token[c] = drawn };
#endif
#ifdef TAKE_IN_TWO_STEPS
  bool looked = false;
  atomic { row_is_free(c) -> looked = (term == NOBODY || over) };
#endif
  atomic {
    row_is_free(c) ->
    if
#ifdef TAKE_IN_TWO_STEPS
    :: looked ->
#else
    :: term == NOBODY || over ->
#endif
      term = mine[c];
      trusts[c] = true;
      got = true;
#ifndef TOKEN_BEFORE_WAIT
#ifdef TOKEN_NOT_DRAWN
      if :: drawn == 0 -> drawn++ :: drawn > 0 fi;
#else
      drawn++;
#endif
      token[c] = drawn
#endif
    :: true /* it is held, or not over on the database's clock */
    fi
  }
}

/* By name and term. What has ended for the client does not come back. */
inline renew(c) {
  atomic {
    row_is_free(c) ->
#ifdef RENEWAL_UPSERT
    term = mine[c];
    trusts[c] = true;
    assert(!owns(1 - c) || !held[c])
#else
    assert(!owns(c) || term == mine[c]); /* what is granted stays, as long as it is trusted */
    if
    :: term == mine[c] && owns(c) -> skip /* trust goes on */
    :: else -> trusts[c] = false; held[c] = false
    fi
#endif
  }
}

/* The guard reads the row and locks it in the program's own transaction, until COMMIT. */
inline guarded(c) {
  bool passed = false;
  atomic {
    row_is_free(c) ->
    if
    :: term == mine[c] ->
#ifndef GUARD_WITHOUT_LOCK
      locker = c + 1;
#endif
      passed = true
    :: else
#ifdef GUARD_IGNORED
      -> passed = true
#endif
    fi
  };
  atomic {
    if
    :: passed ->
      assert(token[c] >= committed); /* no data of an earlier owner after those of a later one */
      committed = token[c];
      if :: locker == c + 1 -> locker = 0 :: else fi
    :: else
    fi
  };
  passed = false
}

inline release(c) {
#ifndef TRUSTS_WHILE_RELEASING
  atomic { trusts[c] = false; held[c] = false };
#endif
  if
  :: atomic {
      row_is_free(c) ->
#ifdef RELEASE_BY_NAME
      term = NOBODY
#else
      if :: term == mine[c] -> term = NOBODY :: else fi
#endif
    }
  :: true /* it does not get there */
  fi;
  atomic { trusts[c] = false; held[c] = false }
}

proctype client(byte c) {
  byte round;
  bool got;
  do
  :: round < ROUNDS ->
    round++;
    take(c, got);
    if
    :: got ->
      if
      :: hears(c);
        do
        :: renew(c)
        :: guarded(c)
        :: break
        od
      :: true /* the reply is lost: it knows its term, and gives that back */
      fi;
      release(c)
    :: else
    fi
  :: else -> break
  od
}

/* A client is paused, or cut off, until its trust has ended. Its row stays until somebody takes it. */
active proctype pauses() {
  do
  :: atomic { trusts[0] -> trusts[0] = false }
  :: atomic { trusts[1] -> trusts[1] = false }
  od
}

/* Deletes the row of a lock that is free; its token stays in another table. */
active proctype reaper() {
  bool seen;
  do
  :: atomic { term == NOBODY && locker == 0 -> seen = true };
    atomic {
      locker == 0 ->
#ifdef REAPER_WITHOUT_RECHECK
      term = NOBODY;
#else
      if :: term == NOBODY -> skip /* gone */ :: else fi;
#endif
      seen = false
    }
  od
}

init { atomic { run client(0); run client(1) } }
