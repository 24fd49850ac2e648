/* The quorum lock: two clients, three members, one of which may forget everything and join again. lib/doc/quorum.md tells
 * the protocol to people. Explored whole by spin: tests/model/run.
 *
 * Time is not counted. A member lets go of a term only when the client has ceased to trust it (that is what a lease on one
 * member promises), and trust may end at any moment: also at once, as if the reply was lost. A release may be lost, too.
 *
 * Of tokens only this is kept: whether a member's is at least the highest that was granted so far (high), and whether what a client
 * has drawn is above it (above). Where either is not known for sure, it is false.
 *
 * Broken forms, each of which must be refuted: NO_WRITE_BACK, WRITE_BACK_TO_ONE, UNLATCHED, NO_QUARANTINE, NO_FLOOR, JUMPING_CLOCK
 * (plain leases: a clock of a member lets go of a term that is trusted).
 */
#if defined(NO_WRITE_BACK) || defined(WRITE_BACK_TO_ONE)
#define EXACT
#endif
#define MEMBERS 3
#define CLIENTS 2
#define MAJORITY 2
#ifndef AGAIN
#define AGAIN 1 /* of a lock: so often a lost member is taken again */
#endif
#ifndef WIPES
#define WIPES 1
#endif
#define NOBODY 0
#define at(c, m) ((c) * MEMBERS + (m))
#define trusted(c) (trusts[at(c, 0)] + trusts[at(c, 1)] + trusts[at(c, 2)])
#define valid(c) (held[c] && trusted(c) >= MAJORITY)

byte owner[MEMBERS];
bool high[MEMBERS];
bool votes[MEMBERS] = true;
bool trusts[CLIENTS * MEMBERS]; /* the client trusts what the member has granted it */
bool held[CLIENTS];             /* what a program is told, together with valid() */
bool above[CLIENTS];            /* what it has drawn is above all that was granted */
bool last[CLIENTS];             /* it was granted the last lock */

/* What nobody trusts, and nobody renews, ends. */
#ifdef JUMPING_CLOCK
#define may_end(m) (owner[m] != NOBODY)
#else
#define may_end(m) ((owner[m] == 1 && !trusts[at(0, m)]) || (owner[m] == 2 && !trusts[at(1, m)]))
#endif
#define expire(m) atomic { may_end(m) -> owner[m] = NOBODY }

/* Where a token was drawn is only known to the forms that need it: a form that holds without, holds. */
#ifdef EXACT
#define drawn_at(m) (top == (m))
#define draws(m) if :: high[m] -> top = m :: !high[m] || top < MEMBERS fi
#else
#define drawn_at(m) false
#define draws(m) skip
#endif

/* A client begins to own the lock, with a token that the members have to which it wrote it, or where it was drawn. */
inline begins(c) {
  assert(!valid(1 - c)); /* at most one owner */
  assert(above[c]); /* tokens rise in the order of the grants */
  above[c] = false;
  above[1 - c] = false;
  last[c] = true;
  last[1 - c] = false;
  high[0] = has[0] || drawn_at(0); high[1] = has[1] || drawn_at(1); high[2] = has[2] || drawn_at(2)
}

/* One statement at a member takes the row if it is free. Trust counts from before the request: so it is there at once, and may be
 * over before the reply comes. */
inline take(c, m) {
  atomic {
    !asked[m] ->
    asked[m] = true;
    if
    :: votes[m] && owner[m] == NOBODY ->
      owner[m] = c + 1;
      trusts[at(c, m)] = true;
      above[c] = above[c] || high[m];
      draws(m)
    :: else
    fi
  }
}

/* By name and term: meets no row if the term is over there. Its reply may be lost. */
inline write_back(c, m) {
  atomic {
    if
    :: owner[m] == c + 1 && votes[m] ->
      high[m] = high[m] || above[c] || last[c];
      has[m] = true;
      if :: wrote[m] = true :: skip fi
    :: else
    fi
  }
}

/* While it holds the lock, a client may take a member again that it has lost. */
inline take_again(c, m) {
  atomic {
    valid(c) && !trusts[at(c, m)] && owner[m] == NOBODY && votes[m] && again > 0 ->
    again--; owner[m] = c + 1; wrote[m] = false; has[m] = false
  };
  write_back(c, m);
  atomic {
    if
    :: wrote[m] && owner[m] == c + 1 ->
#ifdef UNLATCHED
      if
      :: !valid(c) -> trusts[at(c, m)] = true; if :: valid(c) -> begins(c) :: else fi
      :: else -> trusts[at(c, m)] = true
      fi
#else
      if :: valid(c) -> trusts[at(c, m)] = true :: else fi
#endif
    :: else
    fi
  }
}

inline release(c, m) {
  atomic {
    trusts[at(c, m)] = false;
    if
    :: owner[m] == c + 1 -> owner[m] = NOBODY
    :: skip /* it does not get there */
    fi
  }
}

proctype client(byte c) {
  bool asked[MEMBERS];
  bool wrote[MEMBERS]; /* the token, and knows it */
  bool has[MEMBERS];   /* the member has it */
#ifdef EXACT
  byte top = MEMBERS; /* where it was drawn */
#endif
  byte again = AGAIN;
  do
  :: take(c, 0)
  :: take(c, 1)
  :: take(c, 2)
  :: break
  od;
  atomic { asked[0] = false; asked[1] = false; asked[2] = false };
#ifdef NO_WRITE_BACK
  atomic { wrote[0] = true; wrote[1] = true; wrote[2] = true };
#else
  write_back(c, 0);
#ifdef WRITE_BACK_TO_ONE
  atomic { wrote[1] = true; wrote[2] = true };
#else
  write_back(c, 1);
  write_back(c, 2);
#endif
#endif
  atomic {
    trusts[at(c, 0)] = trusts[at(c, 0)] && wrote[0];
    trusts[at(c, 1)] = trusts[at(c, 1)] && wrote[1];
    trusts[at(c, 2)] = trusts[at(c, 2)] && wrote[2];
    if
    :: trusted(c) >= MAJORITY -> held[c] = true; begins(c)
    :: else
    fi
  };
  do
  :: !held[c] -> break
  :: held[c] -> break /* gives it back */
#ifndef UNLATCHED
  :: atomic { held[c] && !valid(c) -> held[c] = false; break } /* lost, for good */
#endif
  :: take_again(c, 0)
  :: take_again(c, 1)
  :: take_again(c, 2)
  od;
  atomic { held[c] = false; wrote[0] = false; wrote[1] = false; wrote[2] = false; has[0] = false; has[1] = false; has[2] = false; again = 0; above[c] = false; last[c] = false };
  release(c, 0); release(c, 1); release(c, 2)
}

/* Trust ends, members let go of what has expired, one of them forgets, and joins again. */
active proctype world() {
  byte wipes;
  bool floor;
  do
  :: atomic { trusts[0] -> trusts[0] = false }
  :: atomic { trusts[1] -> trusts[1] = false }
  :: atomic { trusts[2] -> trusts[2] = false }
  :: atomic { trusts[3] -> trusts[3] = false }
  :: atomic { trusts[4] -> trusts[4] = false }
  :: atomic { trusts[5] -> trusts[5] = false }
  :: expire(0)
  :: expire(1)
  :: expire(2)
  :: atomic { wipes < WIPES && votes[1] -> wipes++; votes[1] = false; owner[1] = NOBODY; high[1] = false }
#ifdef NO_QUARANTINE
  :: !votes[1] ->
#else
  :: !votes[1] && !trusts[at(0, 1)] && !trusts[at(1, 1)] -> /* max_ttl has passed */
#endif
#ifndef NO_FLOOR
    floor = high[0];
    floor = floor || high[2];
#endif
    atomic { high[1] = floor; floor = false; votes[1] = true }
  od
}

init {
  /* Nothing was granted yet: all tokens will be above that. */
  atomic {
    high[0] = true; high[1] = true; high[2] = true;
    run client(0);
    run client(1)
  }
}
