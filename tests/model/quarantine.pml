/* The quarantine: two clients and one row, in a database that can forget. lib/doc/protocol.md tells the design to people. Spin
 * explores the model whole: tests/model/run.
 *
 * Time has ticks and no end. Each timer says what is left. All clocks have one rate. A process can pause between any two steps.
 * A statement is one step, because trust counts from the sending: a late reply only makes trust shorter. A renewal and a guard in C++
 * have two steps each, because they look at trust first.
 *
 * A crash or a promotion goes back to an earlier state of the row, and empties the pulse. The reach is flushed and stays. A clean restart
 * keeps all. Connections and transactions end with each event. A pooler can still pass a renewal on to the next server.
 *
 * A holder in C++ looks at its trust first. A holder in SQL looks at nothing. The server refuses a SQL holder's term that has expired
 * and was last written before this incarnation.
 *
 * The promises are:
 * - No two clients trust at a time.
 * - Tokens rise over all that was granted, also over forgotten grants.
 * - No guard passes after a later grant, forgotten or not.
 * - The quarantine ends at most the longest ttl after the first pulse. A clean restart does not pause.
 *
 * Tokens are those of the worst case: the row's token is ahead of the clock.
 *
 * The hour and the day have a few ticks. A pulse grants the longest ttl for an HOUR. Its reach is known for a DAY longer. The day is as
 * short as it may be: it covers what an event can go back, and the trust that is left then. A lease in the row is known as long as it is
 * there. Where all leases are equally long, the reach is nothing after its day. Else the shorter one is always granted and always known.
 *
 * Variants, each of which holds: LAST_COUNTS (MySQL, MariaDB; without observed locks). The reach goes back with the row. The last pulse
 * counts, if the current server has made it. A server that was primary before can be it again.
 *
 * Broken forms, each of which must be refuted: NO_PULSE, PULSE_AT_SETUP, PULSE_COPIED, PULSE_LATE (calculated before an event, written
 * after it), RAISE_LATE (so is a wider pulse), LATEST_PULSE (the latest row counts, and a session adds one by an old snapshot),
 * RESTART_PAUSES, SHORT_QUARANTINE, REACH_LATE, HOUR_IGNORED (a pulse grants after its hour), HOUR_ANEW (a wider pulse begins an hour of
 * its own, not the reach's), SHORT_DAY, HELD_FORGOTTEN (a lease in the row does not count after its day), OLDER_COUNTS (the current
 * server's older pulse counts), NO_JUMP, JUMP_FROM_ROW (an hour above the row's token), WATCHES_KEPT, DOUBT_ADOPTED (trust counts from the
 * renewal that finds it), SQL_UNCHECKED, SQL_CHECKED_ONCE (in the quarantine only).
 *
 * Assumptions that are left out, each with a violation: REACH_FORGOTTEN (a ttl was not used for a day, and then in what the event goes
 * back), BACK_BEFORE_A_PULSE (the former primary is it again, before the other one has begun a pulse), BASE_FORGOTTEN (a pulse and its
 * grants are forgotten, and the clock is behind the tokens that are left), GUARD_SURVIVES (a pooler passes a guard on to the next server),
 * CLOCK_BACK_TOKENS and CLOCK_BACK_EXPIRY (the promoted server's clock is behind), CLOCK_FORWARD (the clock steps in the quarantine of
 * observed locks).
 *
 * Situations that come about, each asserted not to: FORGETS_LIVE, TAKES_AFTERWARDS, TAKES_AFTER_TWO, RENEWS_MEANWHILE, WATCHES_ANEW,
 * TAKES_BY_WATCH, COMES_BACK (a lost term, and is refused), ADOPTS_DOUBT, DOUBT_IS_OLD, RESTARTS,
 * DAY_ENDS (nothing is known), FAILS_BACK.
 */
#ifdef OLDER_COUNTS
#define LAST_COUNTS
#endif
#ifdef BACK_BEFORE_A_PULSE
#define LAST_COUNTS
#endif
#ifdef BASE_FORGOTTEN
#define LAST_COUNTS
#endif
#ifdef FAILS_BACK
#define LAST_COUNTS
#endif
#ifdef LAST_COUNTS
#define LATER_COUNTS
#define BY_CLOCK
#endif
#ifdef HELD_FORGOTTEN
#define BY_CLOCK
#endif
#ifdef LATEST_PULSE
#define LATER_COUNTS
#endif
#ifndef EVENTS
#define EVENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* terms of each client */
#endif
#ifndef RENEWALS
#define RENEWALS 2 /* of each term, where they are watched */
#endif
#define NOBODY 0
#define NEVER 0
#define UNKNOWN 255
/* In ticks. A trust of 1 is the last one: so DAY is as short as it may be. */
#define LONGEST 2 /* ttl */
#ifndef LAG
#define LAG 1 /* what the next event can go back */
#endif
#ifndef HOUR
#define HOUR 1 /* a pulse grants so long */
#endif
#ifndef DAY
#ifdef SHORT_DAY
#define DAY (LAG + LONGEST - 2)
#else
#define DAY (LAG + LONGEST - 1) /* and its reach is known so much longer */
#endif
#endif
#define JUMP 5    /* more than the tokens that can be forgotten */

mtype = { IDLE, WANTS, DOUBTS, HOLDS };

bool observed; /* else the database's clock decides */
byte ttl[2];

typedef row {
  byte term;
  byte token;
  byte renewals;
  byte expires_in;
  bool here /* last written in this incarnation */
};
row at;
row durable;  /* what the next event goes back to */
byte lag;     /* durable stands still: the ticks that are left, and 1 */
byte durable_known; /* known_in there, and 1; 0: the reach is flushed */
byte events;
byte server = 1;

/* The pulse: of its rows the earliest. Leases of one tick are granted by each, and always known. */
byte begun = 1; /* its incarnation */
byte safe_in;
byte grants_in; /* LONGEST: so long */
byte known_in;  /* the reach is LONGEST: so long */
#ifdef LAST_COUNTS
byte machine = 1;
byte made_by = 1, durable_made_by;
#endif

mtype mode[2] = IDLE;
byte round[2];
byte mine[2];
byte trust[2];   /* so long */
byte coming[2];  /* a renewal under way: the trust that it would bring, and 1 */
bool in_cpp[2];  /* its renewals are */
bool checked[2]; /* a guard under way has looked at trust, in this connection */
bool doubt_is_here[2]; /* the doubtful take was of this incarnation */
byte pulse[2];   /* a transaction that is open: the time to its safe_from, and 1 */
byte pulse_for[2];

byte watched[2]; /* a term */
byte watched_renewals[2];
byte ripe_in[2];

byte high; /* the highest token granted, and the latest term */
byte last;
byte over_in; /* then the quarantine must be over */

#define above(a, b) ((a) > (b) -> (a) : (b))
#define less(a) ((a) > 0 -> (a) - 1 : 0)
#define ttl_of(t) (ttl[((t) - 1) % 2])
#define least (ttl[1] == LONGEST -> 0 : 1)
#define fresh (HOUR + DAY)
#define owns(c) (mode[c] == HOLDS && trust[c] > 0)
#define safe (begun != NEVER && safe_in == 0)

#ifdef REACH_LATE
#define reaches(c) true
#else
#define reaches(c) (ttl[c] < LONGEST || grants_in > 0)
#endif
#ifdef PULSE_AT_SETUP
bool looked[2];
#endif
#ifdef NO_PULSE
#define may_grant(c) true
#else
#ifdef PULSE_AT_SETUP
#define may_grant(c) (looked[c] || (safe && reaches(c)))
#else
#define may_grant(c) (safe && reaches(c))
#endif
#endif

#define seen_as_watched(c) (watched[c] == at.term && watched_renewals[c] == at.renewals)
#define ripe(c) (watched[c] != NOBODY && ripe_in[c] == 0 && seen_as_watched(c))
#define is_free(c) (at.term == NOBODY || (!observed && at.expires_in == 0) || ripe(c))

/* What the server demands of a holder in SQL. */
#ifdef SQL_UNCHECKED
#define accepted(c) (at.term == mine[c])
#else
#ifdef SQL_CHECKED_ONCE
#define accepted(c) (at.term == mine[c] && (at.expires_in > 0 || safe))
#else
#define accepted(c) (at.term == mine[c] && (at.expires_in > 0 || at.here))
#endif
#endif

#ifdef JUMP_FROM_ROW
byte taken_in = 1, durable_taken_in;
#define jumped(token) (token + (taken_in == begun -> 1 : JUMP))
#else
#ifdef NO_JUMP
#define jumped(token) (token + 1)
#else
/* The clock has gone on since the last incarnation, so its base is above all tokens of that one. */
#ifdef CLOCK_BACK_TOKENS
#define base (begun > 1 -> JUMP : 0)
#else
#ifdef BASE_FORGOTTEN
#define base based
#else
#define base ((begun - 1) * JUMP)
#endif
#endif
#define jumped(token) above(token + 1, base)
#endif
#endif
#ifdef BASE_FORGOTTEN
byte based, durable_based; /* of the last pulse */
#endif
#ifdef CLOCK_FORWARD
bool stepped;
#endif
#ifdef WATCHES_ANEW
byte forgotten_watch[2], forgotten_renewals[2];
#endif

inline copy(from, to) {
  to.term = from.term; to.token = from.token; to.renewals = from.renewals; to.expires_in = from.expires_in; to.here = from.here
}
inline clear(that) { that.term = NOBODY; that.token = 0; that.renewals = 0; that.expires_in = 0; that.here = false }
inline watches_nothing(c) { watched[c] = NOBODY; watched_renewals[c] = 0; ripe_in[c] = 0 }
/* The row has changed. A watch of its former state never counts again, until the database forgets. */
inline changed() {
#ifdef WATCHES_KEPT
  skip
#else
#ifdef WATCHES_ANEW
  skip
#else
  if :: !seen_as_watched(0) -> watches_nothing(0) :: else fi;
  if :: !seen_as_watched(1) -> watches_nothing(1) :: else fi
#endif
#endif
}
/* After the last event nothing is forgotten. A client can always write the reach and a pulse: so they are there. */
inline settles() {
#ifndef REACH_LATE
  if
  :: events == EVENTS && begun != NEVER && pulse[0] == 0 && pulse[1] == 0 ->
    known_in = fresh;
#ifdef LAST_COUNTS
    machine = 0;
    made_by = 0;
#endif
    grants_in = HOUR
  :: else
  fi
#else
  skip
#endif
}
inline ends(c) {
  mode[c] = IDLE; mine[c] = NOBODY; trust[c] = 0;
  coming[c] = 0; in_cpp[c] = false; checked[c] = false; doubt_is_here[c] = false
}

inline trusts(c, lasts) {
  trust[c] = lasts;
  mode[c] = HOLDS;
  assert(!(owns(0) && owns(1)));       /* at most one owner */
  assert(!owns(c) || last == mine[c]) /* and it is the latest */
}

inline renewed(c) {
#ifdef RENEWS_MEANWHILE
  assert(safe);
#endif
  if :: observed -> at.renewals++ :: else fi;
  at.expires_in = ttl[c];
  at.here = (begun != NEVER);
  changed()
}
#define may_renew (!observed || at.renewals < RENEWALS)

/* A take reads the pulse and the row. A refusal shows the row, and what is watched. */
inline takes(c) {
  if
  :: may_grant(c) && is_free(c) ->
#ifdef TAKES_AFTERWARDS
    assert(begun == 1);
#endif
#ifdef TAKES_AFTER_TWO
    assert(begun < 3);
#endif
#ifdef TAKES_BY_WATCH
    assert(begun == 1 || !ripe(c));
#endif
    at.token = jumped(at.token);
    assert(at.token > high); /* tokens rise */
    high = at.token;
    last = mine[c];
    at.term = mine[c]; at.renewals = 0; at.expires_in = ttl[c]; at.here = (begun != NEVER);
#ifdef JUMP_FROM_ROW
    taken_in = begun;
#endif
#ifdef PULSE_AT_SETUP
    looked[c] = true;
#endif
    watches_nothing(c);
    changed();
    if
    :: trusts(c, ttl[c])
    :: mode[c] = DOUBTS; doubt_is_here[c] = true /* the reply is lost */
    fi
  :: else ->
    /* Not longer than the longest ttl, and not after a clean restart. */
    assert(safe || over_in != 0);
    if
    :: !observed || at.term == NOBODY || begun == NEVER -> watches_nothing(c)
    :: observed && at.term != NOBODY && begun != NEVER && !seen_as_watched(c) ->
#ifdef WATCHES_ANEW
      assert(forgotten_watch[c] != at.term || forgotten_renewals[c] != at.renewals);
#endif
      watched[c] = at.term; watched_renewals[c] = at.renewals; ripe_in[c] = ttl_of(at.term)
    :: else
    fi
  fi
}

/* What a quarantine waits for: what was granted of late, or is held in the row. */
#ifdef HELD_FORGOTTEN
#define held false
#else
#define held (at.term != NOBODY && ttl_of(at.term) == LONGEST)
#endif
#define reach (known_in > 0 || held -> LONGEST : least)

/* A ttl that was not used for a day, and then within the lag, is not covered. */
#ifdef REACH_FORGOTTEN
#define used_before true
#else
#define used_before (lag == 0 || durable_known == 0 || durable_known > lag + LONGEST - 1)
#endif

/* What is left of the hour of a pulse that is under way. */
#define hour_of(c) (pulse_for[c] == LONGEST && pulse[c] > 1 && pulse[c] - 1 + HOUR > LONGEST -> pulse[c] - 1 + HOUR - LONGEST : 0)

/* One statement in a transaction that can be open for some time: others begin theirs meanwhile. */
inline begins_pulse(c) {
  pulse_for[c] = reach;
#ifdef SHORT_QUARANTINE
  pulse[c] = less(pulse_for[c]) + 1
#else
  pulse[c] = pulse_for[c] + 1
#endif
}
inline commits_pulse(c) {
  if
  :: begun == NEVER ->
    begun = server; safe_in = pulse[c] - 1; over_in = LONGEST;
#ifdef BASE_FORGOTTEN
    based = above(at.token, based) + JUMP
#endif
#ifdef LATER_COUNTS
  :: begun != NEVER -> safe_in = above(safe_in, pulse[c] - 1)
#else
  :: begun != NEVER && pulse[c] - 1 < safe_in -> safe_in = pulse[c] - 1
#endif
  :: else
  fi;
#ifdef LAST_COUNTS
  made_by = machine;
#endif
  if :: hour_of(c) > 0 && used_before -> grants_in = above(grants_in, hour_of(c)); known_in = above(known_in, hour_of(c) + DAY) :: else fi;
  pulse[c] = 0; pulse_for[c] = 0;
  /* The other one, if it changes nothing any more. */
#ifndef LATER_COUNTS
  if :: pulse[1 - c] > safe_in && hour_of(1 - c) <= grants_in -> pulse[1 - c] = 0; pulse_for[1 - c] = 0 :: else fi;
#endif
  settles()
}

/* By the reach that is known: until its hour is over. */
#ifdef HOUR_ANEW
#define granted (known_in > 0 -> HOUR : 0)
#else
#define granted (known_in > DAY -> known_in - DAY : 0)
#endif
proctype client(byte c) {
  do
  :: atomic { mode[c] == IDLE && round[c] < ROUNDS -> mode[c] = WANTS; mine[c] = c + 1 + 2 * round[c]; round[c]++ }

  :: atomic { mode[c] == WANTS -> takes(c) }
  :: atomic { mode[c] == WANTS && server > 1 && pulse[c] == 0 && begun == NEVER -> begins_pulse(c) }
  :: atomic { pulse[c] > 0 -> commits_pulse(c) }
  /* The reach is flushed first. The pulse gets one more row, with the safe_from that is there. */
#ifdef REACH_LATE
  :: atomic { mode[c] == HOLDS && ttl[c] == LONGEST && known_in < fresh && used_before -> known_in = fresh }
#else
#ifdef LAST_COUNTS
  :: atomic { mode[c] == WANTS && ttl[c] == LONGEST && begun != NEVER && grants_in < HOUR && used_before ->
      known_in = fresh;
      grants_in = HOUR
    }
#else
  :: atomic { mode[c] == WANTS && ttl[c] == LONGEST && known_in < fresh && used_before -> known_in = fresh }
  :: atomic { mode[c] == WANTS && ttl[c] == LONGEST && begun != NEVER && granted > grants_in -> grants_in = granted }
#endif
#endif
#ifdef RAISE_LATE
  :: atomic { mode[c] == WANTS && ttl[c] == LONGEST && begun == NEVER && granted > 0 -> begun = server; grants_in = granted; over_in = 0 }
#endif

  /* A renewal finds a doubtful take. Trust counts from this renewal: within one incarnation that is early enough. */
  :: atomic { mode[c] == DOUBTS && at.term == mine[c] && may_renew ->
      if
#ifdef DOUBT_ADOPTED
      :: true ->
#else
      :: doubt_is_here[c] ->
#endif
#ifdef ADOPTS_DOUBT
        assert(begun == 1);
#endif
        renewed(c);
        doubt_is_here[c] = false;
        trusts(c, ttl[c])
      :: else
#ifdef DOUBT_IS_OLD
        -> assert(last == mine[c])
#endif
      fi
    }

  /* C++: trust that has ended does not come back. */
  :: atomic { owns(c) && coming[c] == 0 -> coming[c] = ttl[c] + 1; in_cpp[c] = true }
  :: atomic { coming[c] > 0 && may_renew ->
      if
      :: at.term == mine[c] ->
        renewed(c);
        if
        :: owns(c) -> trusts(c, coming[c] - 1); coming[c] = 0
        :: !owns(c) -> ends(c)
        :: coming[c] = 0 /* the reply is lost */
        fi
      :: else -> ends(c)
      fi
    }
  :: atomic { coming[c] > 0 -> coming[c] = 0 } /* it does not get there */
  :: atomic { owns(c) && !checked[c] -> checked[c] = true }
  :: atomic { checked[c] ->
      checked[c] = false;
      assert(at.term != mine[c] || last == mine[c]) /* no guard passes after a later grant */
    }

  /* SQL. */
  :: atomic { mode[c] == HOLDS && !in_cpp[c] && may_renew -> if :: accepted(c) -> renewed(c); trusts(c, ttl[c]) :: else -> ends(c) fi }
  :: atomic { mode[c] == HOLDS && !in_cpp[c] && accepted(c) -> assert(last == mine[c]) }
#ifdef COMES_BACK
  :: atomic { mode[c] == HOLDS && !accepted(c) -> assert(at.term != mine[c] || last == mine[c]) }
#endif

  /* A release, which might not get there. */
  :: atomic { mode[c] == HOLDS || mode[c] == DOUBTS ->
      if
      :: at.term == mine[c] -> at.term = NOBODY; at.renewals = 0; at.expires_in = 0; at.here = false; changed()
      :: true
      fi;
      ends(c)
    }
  od
}

#define later(c) \
  trust[c] = less(trust[c]); \
  coming[c] = (coming[c] > 1 -> (trust[c] > 0 -> coming[c] - 1 : 1) : coming[c]); \
  pulse[c] = (pulse[c] > 1 -> pulse[c] - 1 : pulse[c]); \
  ripe_in[c] = less(ripe_in[c])
#define later_in_database \
  at.expires_in = less(at.expires_in); \
  durable.expires_in = less(durable.expires_in); \
  safe_in = less(safe_in)
#ifdef HOUR_IGNORED
#define later_in_pulse grants_in = grants_in
#else
#define later_in_pulse grants_in = less(grants_in)
#endif
#ifdef LAST_COUNTS
#define later_over less(over_in)
#else
#define later_over (safe -> 0 : less(over_in))
#endif

active proctype time() {
  do
  :: atomic { lag != 1 ->
      later(0);
      later(1);
      later_in_database;
      later_in_pulse;
#ifdef DAY_ENDS
      assert(known_in != 1);
#endif
      known_in = less(known_in);
      lag = less(lag);
      durable_known = (durable_known > 1 -> durable_known - 1 : durable_known);
      over_in = (over_in == UNKNOWN -> UNKNOWN : later_over);
      settles()
    }
#ifdef CLOCK_FORWARD
  :: atomic { observed && !stepped -> stepped = true; later_in_database }
#endif
  od
}

inline ends_transactions(c) {
#ifndef PULSE_LATE
  pulse[c] = 0; pulse_for[c] = 0;
#endif
#ifndef GUARD_SURVIVES
  checked[c] = false
#endif
}
inline restarts() {
  events++;
  server++;
  lag = 0;
  durable_known = 0;
  clear(durable);
  ends_transactions(0);
  ends_transactions(1)
}
inline begins_anew(c) {
  doubt_is_here[c] = false;
#ifdef WATCHES_ANEW
  forgotten_watch[c] = watched[c]; forgotten_renewals[c] = watched_renewals[c];
#endif
#ifndef WATCHES_KEPT
  watches_nothing(c)
#endif
}

#ifdef OLDER_COUNTS
#define counts_here (machine == 1)
#else
#define counts_here (made_by == machine)
#endif
#ifdef BACK_BEFORE_A_PULSE
#define has_last true
#else
#define has_last (made_by != 1)
#endif

active proctype world() {
  do
  :: atomic { lag == 0 && events < EVENTS ->
      lag = LAG + 1;
      copy(at, durable);
      durable.here = false;
      if
#ifdef LAST_COUNTS
      :: durable_known = known_in + 1
#else
#ifdef REACH_FORGOTTEN
      :: durable_known = known_in + 1
#endif
      :: durable_known = 0
#endif
      fi;
#ifdef LAST_COUNTS
      durable_made_by = made_by;
#ifdef BASE_FORGOTTEN
      durable_based = based;
#endif
#endif
#ifdef JUMP_FROM_ROW
      durable_taken_in = taken_in;
#endif
    }
  /* A crash or a promotion. The next server's clock can be ahead. */
  :: atomic { events < EVENTS ->
      if
      :: lag > 0 ->
#ifdef FORGETS_LIVE
        assert(!(owns(0) && at.term == mine[0] && durable.term != mine[0]));
#endif
        copy(durable, at);
        if :: durable_known > 0 -> known_in = durable_known - 1 :: else fi;
#ifdef LAST_COUNTS
        made_by = durable_made_by;
#ifdef BASE_FORGOTTEN
        based = durable_based;
#endif
#endif
#ifdef JUMP_FROM_ROW
        taken_in = durable_taken_in;
#endif
      :: else
      fi;
      restarts();
      at.here = false;
      if
      :: at.expires_in = 0
      :: skip
#ifdef CLOCK_BACK_EXPIRY
      :: at.term != NOBODY -> at.expires_in = at.expires_in + 1
#endif
      fi;
#ifdef LAST_COUNTS
      if
      :: machine = server
      :: machine != 1 && has_last ->
        machine = 1 /* which was primary before */
#ifdef FAILS_BACK
        ; assert(false)
#endif
      fi;
      durable_made_by = 0;
#endif
#ifndef PULSE_COPIED
      if
#ifdef LAST_COUNTS
      :: counts_here -> begun = machine; safe_in = 0; grants_in = 0; over_in = 0
#endif
      :: else -> begun = NEVER; safe_in = 0; grants_in = 0; over_in = UNKNOWN
      fi;
      begins_anew(0);
      begins_anew(1)
#endif
    }
  /* A clean restart. */
  :: atomic { events < EVENTS ->
#ifdef RESTARTS
      assert(!owns(0));
#endif
      restarts();
#ifdef RESTART_PAUSES
      begun = NEVER; safe_in = 0; grants_in = 0;
#endif
      settles()
    }
  od
}

init {
  atomic {
    if
#ifndef BY_CLOCK
    :: observed = true
#endif
    :: observed = false
    fi;
    ttl[0] = LONGEST;
    if
#ifndef BASE_FORGOTTEN /* which then comes soon */
    :: ttl[1] = LONGEST
#endif
    :: ttl[1] = 1
    fi;
    run client(0);
    run client(1)
  }
}
