-- The index of work: a projection of tuples.jsonl. Nothing here is true by itself; delete the file and it is built again.

CREATE TABLE applied (              -- how far into the journal this index has come: always one row
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    layout     INTEGER NOT NULL,    -- the version of this file; another one means: build it again
    project    TEXT    NOT NULL,
    indexed    TEXT    NOT NULL,    -- the fields tuples are posted by, as a JSON list
    position   INTEGER NOT NULL,    -- bytes of the journal applied
    seq        INTEGER NOT NULL,    -- the last line applied
    checksum   TEXT    NOT NULL,    -- that line's
    at         INTEGER NOT NULL,    -- that line's
    synced     INTEGER NOT NULL,    -- bytes of the journal known to be on the disk
    machine    TEXT    NOT NULL,    -- the start of the machine in which that was said
    ordinal    INTEGER NOT NULL,    -- tuples so far
    receipts   INTEGER NOT NULL,    -- receipts so far
    sorted_tuples INTEGER NOT NULL,   -- of how many the ids are sorted in
    sorted_receipts INTEGER NOT NULL,
    links      INTEGER NOT NULL,    -- links so far
    runs       INTEGER NOT NULL,    -- runs with tuples so far
    epoch      INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    counter    INTEGER NOT NULL,    -- claims in this epoch
    figures    BLOB    NOT NULL     -- what was counted of lanes, runs and yools and is not in their tables yet, as JSON
) STRICT;

CREATE TABLE bodies (               -- tuples as they were created; never changed
    ordinal    INTEGER PRIMARY KEY,
    body       BLOB    NOT NULL
) STRICT;

CREATE TABLE tuples (               -- what has become of them
    ordinal    INTEGER PRIMARY KEY,
    id         BLOB    NOT NULL,
    state      TEXT    NOT NULL,
    lane       TEXT    NOT NULL,
    rank       INTEGER NOT NULL,
    run        INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    ready_at   INTEGER NOT NULL DEFAULT 0,
    epoch      INTEGER,
    counter    INTEGER,
    worker     TEXT,
    until      INTEGER NOT NULL DEFAULT 0,
    deadline   INTEGER,
    retries    INTEGER,
    budget_micros INTEGER,
    budget_tokens INTEGER,
    micros     INTEGER NOT NULL DEFAULT 0,
    tokens     INTEGER NOT NULL DEFAULT 0,
    own_micros INTEGER NOT NULL DEFAULT 0,  -- of that, what it has spent itself
    own_tokens INTEGER NOT NULL DEFAULT 0,
    held_micros INTEGER NOT NULL DEFAULT 0,
    held_tokens INTEGER NOT NULL DEFAULT 0,
    alarmed    INTEGER NOT NULL DEFAULT 0,
    parent     BLOB,
    again      BLOB,
    ended      INTEGER              -- the number of its last receipt
) STRICT;
CREATE INDEX waiting ON tuples (lane, rank DESC, ordinal) WHERE state = 'waiting' AND ready_at = 0;
CREATE INDEX delayed ON tuples (lane, ready_at) WHERE state = 'waiting' AND ready_at > 0;
CREATE INDEX delayed_in_order ON tuples (lane, rank DESC, ordinal, ready_at) WHERE state = 'waiting' AND ready_at > 0;
CREATE INDEX claimed ON tuples (lane, epoch, until) WHERE state = 'claimed';
CREATE INDEX dead ON tuples (ordinal) WHERE state = 'dead';
CREATE INDEX given_up ON tuples (ended) WHERE state = 'dead';
CREATE INDEX ended ON tuples (run, ended) WHERE ended > 0 AND (state <> 'dead' OR again IS NOT NULL);
CREATE INDEX by_lane ON tuples (lane, ordinal);

-- Ids are hashes: sorted in one by one, each would change a page of its own. So new ones gather in a small table, and
-- many are sorted in at once. `head` is an id's first eight bytes as a number; ids that share it lie side by side.

CREATE TABLE tuple_ids (
    head       INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    PRIMARY KEY (head, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE new_tuple_ids (
    head       INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    PRIMARY KEY (head, ordinal)
) STRICT, WITHOUT ROWID;

CREATE VIEW all_tuple_ids AS SELECT head, ordinal FROM tuple_ids UNION ALL SELECT head, ordinal FROM new_tuple_ids;

CREATE TABLE receipt_ids (
    head       INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    PRIMARY KEY (head, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE new_receipt_ids (
    head       INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    PRIMARY KEY (head, number)
) STRICT, WITHOUT ROWID;

CREATE VIEW all_receipt_ids AS SELECT head, number FROM receipt_ids UNION ALL SELECT head, number FROM new_receipt_ids;

CREATE TABLE posted (               -- tuples by the fields named in the settings; those taken out are not here
    path       TEXT    NOT NULL,
    value      TEXT    NOT NULL,    -- as JSON
    live       INTEGER NOT NULL,    -- whether it waits or is worked on
    rank       INTEGER NOT NULL,    -- its rank, negative: the highest first
    ordinal    INTEGER NOT NULL,
    PRIMARY KEY (path, value, live, rank, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipts (
    number     INTEGER PRIMARY KEY,
    id         BLOB    NOT NULL,
    run        INTEGER NOT NULL,
    body       BLOB    NOT NULL
) STRICT;
CREATE INDEX receipts_by_run ON receipts (run, number);

CREATE TABLE links (                -- the receipts of each tuple in the order they came
    ordinal    INTEGER NOT NULL,    -- the tuple
    number     INTEGER NOT NULL,
    receipt    BLOB    NOT NULL,
    step       INTEGER,             -- the step it finished, if it did
    PRIMARY KEY (ordinal, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE results (              -- receipts that may stand for another execution
    key        TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    PRIMARY KEY (key, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE purged (               -- bodies that were taken away to make room
    sha        BLOB    PRIMARY KEY,
    at         INTEGER NOT NULL,
    why        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE asked (                -- tuples by the idempotency key they were put under
    key        TEXT    PRIMARY KEY,
    id         BLOB    NOT NULL,
    request    TEXT    NOT NULL,
    accepted   BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE yools (                -- what successful executions cost so far
    name       TEXT    PRIMARY KEY,
    runs       INTEGER NOT NULL,
    micros     INTEGER NOT NULL,
    tokens     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE running (              -- steps under way
    ordinal    INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    micros     INTEGER NOT NULL,    -- set aside and not yet spent
    tokens     INTEGER NOT NULL,
    PRIMARY KEY (ordinal, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE counted (              -- what steps spent, by the claim they were executed under
    ordinal    INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    counter    INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    micros     INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    PRIMARY KEY (ordinal, epoch, counter, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE lanes (
    lane       TEXT    PRIMARY KEY,
    waiting    INTEGER NOT NULL,
    claimed    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    number     INTEGER PRIMARY KEY,
    run        TEXT    NOT NULL UNIQUE,
    waiting    INTEGER NOT NULL DEFAULT 0,
    claimed    INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    dead       INTEGER NOT NULL DEFAULT 0,
    cancelled  INTEGER NOT NULL DEFAULT 0,
    taken      INTEGER NOT NULL DEFAULT 0,
    again      INTEGER NOT NULL DEFAULT 0,  -- dead letters that were put again
    executed   INTEGER NOT NULL DEFAULT 0,
    hits       INTEGER NOT NULL DEFAULT 0,
    micros     INTEGER NOT NULL DEFAULT 0,
    tokens     INTEGER NOT NULL DEFAULT 0
) STRICT;
