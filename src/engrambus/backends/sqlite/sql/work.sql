-- The work index: a projection of tuples.jsonl (decision 22). Delete the file and it is rebuilt.

CREATE TABLE applied (              -- the state of this index: always one row
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    layout     INTEGER NOT NULL,    -- version of this file; an index of another version is rebuilt
    project    TEXT    NOT NULL,
    indexed    TEXT    NOT NULL,    -- fields by which tuples are posted, as a JSON list
    position   INTEGER NOT NULL,    -- offset behind the last line applied
    seq        INTEGER NOT NULL,    -- number of that line
    checksum   TEXT    NOT NULL,    -- checksum of that line
    at         INTEGER NOT NULL,    -- commit time of that line, in microseconds as all times here
    clock      BLOB    NOT NULL,    -- what the lines up to there say about the machine's clock, as JSON (decision 91)
    synced     INTEGER NOT NULL,    -- bytes of the journal known to be on disk
    machine    TEXT    NOT NULL,    -- boot of the machine in which that was recorded
    ordinal    INTEGER NOT NULL,    -- number of tuples
    receipts   INTEGER NOT NULL,    -- number of receipts
    sorted_tuples INTEGER NOT NULL,   -- number of tuples whose ids are merged into `tuple_ids`
    sorted_receipts INTEGER NOT NULL,
    links      INTEGER NOT NULL,    -- number of links
    runs       INTEGER NOT NULL,    -- number of runs with tuples
    epoch      INTEGER NOT NULL,    -- epoch of claims
    boot       TEXT    NOT NULL,    -- boot of the machine in which the epoch began
    counter    INTEGER NOT NULL,    -- number of claims in this epoch
    rules      INTEGER NOT NULL,    -- number made from the limits and pauses; 0 without any
    shape      INTEGER NOT NULL,    -- another with every change of `lane_runs`, `siblings`, `groups` and the list of batches
    figures    BLOB    NOT NULL     -- counts of lanes, runs and yools that are not in their tables yet, as JSON (decision 35)
) STRICT;

CREATE TABLE schedules (            -- rules that put tuples at certain times
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    run        TEXT    NOT NULL,
    added_by   TEXT    NOT NULL,
    look       INTEGER NOT NULL,    -- time of the next look at it
    added      BLOB    NOT NULL,    -- the fact that added it, as JSON
    state      BLOB    NOT NULL     -- what has become of it, as JSON
) STRICT;
CREATE INDEX schedule_looks ON schedules (look, name);
CREATE INDEX schedule_authors ON schedules (added_by);

CREATE TABLE bodies (               -- tuples as they were created; never changed, and apart so that a change of state does not rewrite them
    ordinal    INTEGER PRIMARY KEY,
    body       BLOB    NOT NULL
) STRICT;

CREATE TABLE tuples (               -- their state
    ordinal    INTEGER PRIMARY KEY,
    id         BLOB    NOT NULL,
    state      TEXT    NOT NULL,
    lane       TEXT    NOT NULL,
    rank       INTEGER NOT NULL,
    run        INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    ready_at   INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER,             -- time before which its terms let nobody claim it
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
    own_micros INTEGER NOT NULL DEFAULT 0,  -- of that, spent by the tuple itself and not by its children
    own_tokens INTEGER NOT NULL DEFAULT 0,
    held_micros INTEGER NOT NULL DEFAULT 0,
    held_tokens INTEGER NOT NULL DEFAULT 0,
    alarmed    INTEGER NOT NULL DEFAULT 0,
    parent     BLOB,
    again      BLOB,
    ended      INTEGER,             -- number of its final receipt
    needs      INTEGER NOT NULL,    -- what it needed when it began to wait, by its number in `needs`
    grp        INTEGER NOT NULL,    -- its group
    due        INTEGER NOT NULL     -- 0 while it waits for `ready_at`; set by the first claim after that
) STRICT;
CREATE INDEX waiting ON tuples (grp, ordinal) WHERE state = 'waiting' AND due = 1;
CREATE INDEX delayed ON tuples (lane, needs, ready_at) WHERE state = 'waiting' AND due = 0;
CREATE INDEX claimed ON tuples (lane, epoch, until) WHERE state = 'claimed';
CREATE INDEX blocked ON tuples (lane, ordinal) WHERE state = 'blocked';
CREATE INDEX dead ON tuples (ordinal) WHERE state = 'dead';
CREATE INDEX given_up ON tuples (ended) WHERE state = 'dead';
CREATE INDEX ended ON tuples (run, ended) WHERE ended > 0 AND (state <> 'dead' OR again IS NOT NULL);
CREATE INDEX by_lane ON tuples (lane, ordinal);

CREATE TABLE needs (                -- each set of yools that the next steps of a tuple have (decision 100)
    number     INTEGER PRIMARY KEY,
    yools      TEXT    NOT NULL UNIQUE  -- their names, sorted, as a JSON list
) STRICT;

-- Waiting tuples lie in groups, so that a claim finds the next by a few seeks: by run, in it by parent, and in it by key
-- (decision 110). What is closed here has no tuple that may start: a walk that came past it has closed it, and it is
-- opened by what can change that. `open`, `head` and `closed` are derived by claims and may differ between two indexes.

CREATE TABLE lane_runs (            -- tuples of a run in a lane, of one priority and authority and with the same needs
    number     INTEGER PRIMARY KEY,
    lane       TEXT    NOT NULL,
    needs      INTEGER NOT NULL,
    rank       INTEGER NOT NULL,
    run        INTEGER NOT NULL,
    authority  TEXT    NOT NULL,
    served     INTEGER NOT NULL,    -- last claim of that lane and run, unless a later one is among the pending figures
    open       INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX lane_run ON lane_runs (lane, run, needs, rank, authority);
CREATE INDEX open_lane_runs ON lane_runs (lane, needs, rank DESC, served, run) WHERE open = 1;

CREATE TABLE siblings (             -- of those, the children of one parent
    number     INTEGER PRIMARY KEY,
    lane_run   INTEGER NOT NULL,
    parent     INTEGER NOT NULL,    -- ordinal of the parent; 0 without one
    served     INTEGER NOT NULL,    -- last claim of that lane, run and parent, as above
    open       INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX sibling ON siblings (lane_run, parent);
CREATE INDEX open_siblings ON siblings (lane_run, served, parent) WHERE open = 1;

CREATE TABLE groups (               -- of those, the tuples with one concurrency key
    number     INTEGER PRIMARY KEY,
    siblings   INTEGER NOT NULL,
    key        TEXT    NOT NULL,    -- empty for tuples without a key
    head       INTEGER NOT NULL,    -- no waiting tuple of it is older than this ordinal
    state      INTEGER NOT NULL DEFAULT 1  -- 1 open, 0 empty, 2 held by a pool without room
) STRICT;
CREATE UNIQUE INDEX grouped ON groups (siblings, key);
CREATE INDEX open_groups ON groups (siblings, head) WHERE state = 1;

CREATE TABLE rules (                -- limits and pauses
    name       TEXT    PRIMARY KEY,
    body       BLOB    NOT NULL     -- as JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE slots (                -- claimed tuples by the pools that they are counted in; only valid claims count
    pool       TEXT    NOT NULL,
    ordinal    INTEGER NOT NULL,
    PRIMARY KEY (pool, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX slots_by_tuple ON slots (ordinal);

CREATE TABLE starts (               -- the last starts of pools with a rate
    pool       TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (pool, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX starts_by_time ON starts (pool, at, number);

CREATE TABLE closed (               -- pools without room that hold groups
    pool       TEXT    PRIMARY KEY,
    until      INTEGER              -- when one may have room by itself
) STRICT, WITHOUT ROWID;
CREATE INDEX closed_until ON closed (until) WHERE until IS NOT NULL;

CREATE TABLE held (
    pool       TEXT    NOT NULL,
    grp        INTEGER NOT NULL,
    PRIMARY KEY (pool, grp)
) STRICT, WITHOUT ROWID;

-- Ids are hashes: inserted one by one, each would change a page of its own (decision 22). So new ones gather in a small
-- table, and many are merged at once. `head` is the first eight bytes of an id as a number; several ids may share it.

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

CREATE TABLE posted (               -- tuples by the fields named in the settings, without taken ones
    path       TEXT    NOT NULL,
    value      TEXT    NOT NULL,    -- as JSON
    live       INTEGER NOT NULL,    -- 1 while it waits or is claimed
    rank       INTEGER NOT NULL,    -- its negated rank, so that the highest comes first
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

CREATE TABLE links (                -- receipts of each tuple in the order they were recorded
    ordinal    INTEGER NOT NULL,    -- ordinal of the tuple
    number     INTEGER NOT NULL,
    receipt    BLOB    NOT NULL,
    step       INTEGER,             -- step that it finished, if any
    PRIMARY KEY (ordinal, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE hits (                 -- uses of receipts from the cache; together with `receipts` they list what a run has
    receipt_number INTEGER NOT NULL,  -- number of the last receipt recorded before it
    number     INTEGER NOT NULL,    -- number of its link
    run        INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,    -- ordinal of the tuple
    step       INTEGER NOT NULL,
    receipt    BLOB    NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (receipt_number, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX hits_by_run ON hits (run, receipt_number, number);

CREATE TABLE results (              -- receipts that are cache hits for a key
    key        TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    PRIMARY KEY (key, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE purged (               -- stored bodies that were deleted to free disk space
    sha        BLOB    PRIMARY KEY,
    at         INTEGER NOT NULL,
    why        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE asked (                -- answers to puts with an idempotency key
    key        TEXT    PRIMARY KEY,
    id         BLOB    NOT NULL,
    request    TEXT    NOT NULL,
    accepted   BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE yools (                -- total cost of successful executions
    name        TEXT    PRIMARY KEY,
    runs        INTEGER NOT NULL,
    micros      INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    most_micros INTEGER NOT NULL,   -- the most of one execution
    most_tokens INTEGER NOT NULL,
    kept_micros INTEGER NOT NULL,   -- executions in a row that kept to what was reserved
    kept_tokens INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE running (              -- running steps
    ordinal    INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    micros     INTEGER NOT NULL,    -- reserved and not spent yet; below zero if more was spent
    tokens     INTEGER NOT NULL,
    yool       TEXT    NOT NULL,    -- empty if it runs under no budget
    PRIMARY KEY (ordinal, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE counted (              -- cost of steps by the claim under which they ran
    ordinal    INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    counter    INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    micros     INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    PRIMARY KEY (ordinal, epoch, counter, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE blocks (               -- what keeps blocked tuples from being claimed (decision 113)
    ordinal    INTEGER NOT NULL,    -- ordinal of the blocked tuple
    blocker    BLOB    NOT NULL,    -- id of the tuple that must be done first; empty for a reason in words
    reason     TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    PRIMARY KEY (ordinal, blocker)
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_by_blocker ON blocks (blocker, ordinal);

CREATE TABLE task_changes (         -- the history of each task, in order
    ordinal    INTEGER NOT NULL,
    number     INTEGER NOT NULL,    -- 1, 2, … within the task
    at         INTEGER NOT NULL,
    what       TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    owner      TEXT,
    process    TEXT,
    PRIMARY KEY (ordinal, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE lanes (
    lane       TEXT    PRIMARY KEY,
    waiting    INTEGER NOT NULL,
    claimed    INTEGER NOT NULL,
    blocked    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    number     INTEGER PRIMARY KEY,
    run        TEXT    NOT NULL UNIQUE,
    waiting    INTEGER NOT NULL DEFAULT 0,
    blocked    INTEGER NOT NULL DEFAULT 0,
    claimed    INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    dead       INTEGER NOT NULL DEFAULT 0,
    cancelled  INTEGER NOT NULL DEFAULT 0,
    taken      INTEGER NOT NULL DEFAULT 0,
    open       INTEGER NOT NULL DEFAULT 0,  -- nodes of batches
    again      INTEGER NOT NULL DEFAULT 0,  -- dead letters that were put again
    executed   INTEGER NOT NULL DEFAULT 0,
    hits       INTEGER NOT NULL DEFAULT 0,
    micros     INTEGER NOT NULL DEFAULT 0,
    tokens     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Batches (decision 112): a batch is one row here, and what is folded of it needs no others.

CREATE TABLE batches (
    ordinal    INTEGER PRIMARY KEY, -- ordinal of the root
    lane       TEXT    NOT NULL,
    rank       INTEGER NOT NULL,
    depth      INTEGER NOT NULL,
    branching  INTEGER NOT NULL,
    template   BLOB    NOT NULL,    -- a leaf without its place in the batch
    retries    INTEGER,
    folded     INTEGER NOT NULL     -- number of folded leaves
) STRICT;
CREATE INDEX folded_batches ON batches (lane, rank DESC, ordinal) WHERE folded > 0;

CREATE TABLE folded_leaves (        -- ranges of leaves that are folded; no two touch
    batch      INTEGER NOT NULL,    -- ordinal of its root
    start      INTEGER NOT NULL,
    stop       INTEGER NOT NULL,    -- number behind the last
    PRIMARY KEY (batch, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE folded_ends (          -- agents that ended while they were folded
    batch      INTEGER NOT NULL,
    level      INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    agents     INTEGER NOT NULL,
    PRIMARY KEY (batch, level, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (               -- agents that are tuples
    ordinal    INTEGER PRIMARY KEY, -- ordinal of the tuple
    batch      INTEGER NOT NULL,
    level      INTEGER NOT NULL,
    number     INTEGER NOT NULL,    -- position within the level
    children   INTEGER NOT NULL,    -- 0 for a leaf
    children_left INTEGER NOT NULL, -- children that have not ended
    dead       INTEGER NOT NULL DEFAULT 0,  -- leaves below it, of the children that have ended
    cancelled  INTEGER NOT NULL DEFAULT 0,
    idle       INTEGER NOT NULL,    -- 1 for a leaf that was never claimed and has not ended
    kept       INTEGER NOT NULL DEFAULT 0   -- 1 if a tuple from outside the batch is its child or waits for it
) STRICT;
CREATE UNIQUE INDEX agents_by_place ON agents (batch, level, number);
CREATE INDEX idle_leaves ON agents (batch, number) WHERE idle = 1;
CREATE INDEX kept_agents ON agents (batch, level, number) WHERE kept = 1;
