-- The work store (decision 123): a projection of its journal, as `sqlite/sql/work.sql` is. Text compares byte by byte.

CREATE TABLE work_state (  -- how far the tables below have come: one row for each project, which a writer locks
    project        integer NOT NULL DEFAULT current_project(),
    indexed        text COLLATE "C" NOT NULL, -- fields by which tuples are posted, as a JSON list
    position       bigint NOT NULL,  -- bytes of the journal up to the last line applied
    seq            bigint NOT NULL,  -- number of that line
    checksum       text COLLATE "C" NOT NULL, -- checksum of that line
    at             bigint NOT NULL,  -- commit time of that line, in microseconds as all times here
    clock          bytea NOT NULL,  -- what the lines up to there say about the clock, as JSON (decision 91)
    synced         bigint NOT NULL,  -- bytes of the journal up to the last line that had to be on disk
    ordinal        bigint NOT NULL DEFAULT 0,  -- number of tuples
    receipts       bigint NOT NULL DEFAULT 0,  -- number of receipts
    links          bigint NOT NULL DEFAULT 0,  -- number of links
    runs           bigint NOT NULL DEFAULT 0,  -- number of runs with tuples
    epoch          bigint NOT NULL DEFAULT 0,  -- epoch of claims
    boot           text COLLATE "C" NOT NULL DEFAULT '', -- what the epoch began in
    counter        bigint NOT NULL DEFAULT 0,  -- number of claims in this epoch
    rules          bigint NOT NULL DEFAULT 0,  -- number made from the limits and pauses; 0 without any
    shape          bigint NOT NULL,  -- another with every change of lane runs, siblings, groups and the list of batches
    figures        bytea NOT NULL DEFAULT '{}', -- counts that are not in their tables yet, as JSON (decision 35)
    PRIMARY KEY (project)
) WITH (fillfactor = 50);
CALL protect('work_state');

CREATE TABLE work_workers (  -- workers that announced themselves; in no journal
    project        integer NOT NULL DEFAULT current_project(),
    id             text COLLATE "C" NOT NULL,
    body           bytea NOT NULL,  -- as JSON
    PRIMARY KEY (project, id)
);
CALL protect('work_workers');

CREATE TABLE work_schedules (  -- rules that put tuples at certain times
    project        integer NOT NULL DEFAULT current_project(),
    number         bigint NOT NULL,
    name           text COLLATE "C" NOT NULL,
    run            text COLLATE "C" NOT NULL,
    added_by       text COLLATE "C" NOT NULL,
    look           bigint NOT NULL,  -- time of the next look at it
    added          bytea NOT NULL,  -- the fact that added it, as JSON
    state          bytea NOT NULL,  -- what has become of it, as JSON
    PRIMARY KEY (project, number)
);
CALL protect('work_schedules');
CREATE UNIQUE INDEX work_schedule_names ON work_schedules (project, name);
CREATE INDEX work_schedule_looks ON work_schedules (project, look, name);
CREATE INDEX work_schedule_authors ON work_schedules (project, added_by);

-- Apart from `work_tuples`, so that a change of state does not rewrite them.
CREATE TABLE work_bodies (  -- tuples as they were created; never changed
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,
    body           bytea NOT NULL,
    PRIMARY KEY (project, ordinal)
);
CALL protect('work_bodies');

CREATE TABLE work_tuples (  -- their state
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,
    id             bytea NOT NULL,
    state          text COLLATE "C" NOT NULL,
    lane           text COLLATE "C" NOT NULL,
    rank           bigint NOT NULL,
    run            bigint NOT NULL,
    attempts       bigint NOT NULL DEFAULT 0,
    ready_at       bigint NOT NULL DEFAULT 0,
    not_before     bigint,  -- time before which its terms let nobody claim it
    epoch          bigint,
    counter        bigint,
    worker         text COLLATE "C",
    until          bigint NOT NULL DEFAULT 0,
    deadline       bigint,
    retries        bigint,
    budget_micros  bigint,
    budget_tokens  bigint,
    micros         bigint NOT NULL DEFAULT 0,
    tokens         bigint NOT NULL DEFAULT 0,
    own_micros     bigint NOT NULL DEFAULT 0,  -- of that, spent by the tuple itself and not by its children
    own_tokens     bigint NOT NULL DEFAULT 0,
    held_micros    bigint NOT NULL DEFAULT 0,
    held_tokens    bigint NOT NULL DEFAULT 0,
    alarmed        bigint NOT NULL DEFAULT 0,
    parent         bytea ,
    again          bytea ,
    ended          bigint,  -- number of its final receipt
    needs          bigint NOT NULL,  -- what it needed when it began to wait, by its number in `needs`
    grp            bigint NOT NULL,  -- its group
    due            bigint NOT NULL,  -- 0 while it waits for `ready_at`; set by the first claim after that
    PRIMARY KEY (project, ordinal)
);
CALL protect('work_tuples');
-- Where all tuples are in one lane, plans must still suit another that has few.
ALTER TABLE work_tuples ALTER COLUMN lane SET (n_distinct = 10000);
CREATE UNIQUE INDEX work_tuple_ids ON work_tuples (project, id);
CREATE INDEX work_waiting ON work_tuples (project, grp, ordinal) WHERE state = 'waiting' AND due = 1;
CREATE INDEX work_delayed ON work_tuples (project, lane, needs, ready_at) WHERE state = 'waiting' AND due = 0;
CREATE INDEX work_claimed ON work_tuples (project, lane, epoch, until) WHERE state = 'claimed';
CREATE INDEX work_blocked ON work_tuples (project, lane, ordinal) WHERE state = 'blocked';
CREATE INDEX work_dead ON work_tuples (project, ordinal) WHERE state = 'dead';
CREATE INDEX work_given_up ON work_tuples (project, ended) WHERE state = 'dead';
CREATE INDEX work_ended ON work_tuples (project, run, ended) WHERE ended > 0 AND (state <> 'dead' OR again IS NOT NULL);
-- Only for queries that name a lane: others would skip through it.
CREATE INDEX work_by_lane ON work_tuples (project, lane, ordinal) WHERE lane IS NOT NULL;

CREATE TABLE work_needs (  -- each set of yools that the next steps of a tuple have (decision 100)
    project        integer NOT NULL DEFAULT current_project(),
    number         bigint NOT NULL,
    yools          text COLLATE "C" NOT NULL,  -- their names, sorted, as a JSON list
    digest         text COLLATE "C" NOT NULL GENERATED ALWAYS AS (md5(yools)) STORED,  -- a list may be too long to index
    PRIMARY KEY (project, number)
);
CALL protect('work_needs');
CREATE UNIQUE INDEX work_needs_by_digest ON work_needs (project, digest);

-- Waiting tuples lie in groups, so that a claim finds the next by a few seeks: by run, in it by parent, in it by key
-- (decision 110). What is closed here has no tuple that may start: a walk that came past it has closed it, and it is
-- opened by what can change that. `open`, `head` and `closed` are derived by claims and may differ between two indexes.
CREATE TABLE work_lane_runs (  -- tuples of a run in a lane, of one priority and authority and with the same needs
    project        integer NOT NULL DEFAULT current_project(),
    number         bigint NOT NULL,
    lane           text COLLATE "C" NOT NULL,
    needs          bigint NOT NULL,
    rank           bigint NOT NULL,
    run            bigint NOT NULL,
    authority      text COLLATE "C" NOT NULL,
    served         bigint NOT NULL,  -- last claim of that lane and run, unless a later one is among the pending figures
    open           bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (project, number)
);
CALL protect('work_lane_runs');
CREATE UNIQUE INDEX work_lane_run ON work_lane_runs (project, lane, run, needs, rank, authority);
CREATE INDEX work_open_lane_runs ON work_lane_runs (project, lane, needs, rank DESC, served, run) WHERE open = 1;

CREATE TABLE work_siblings (  -- of those, the children of one parent
    project        integer NOT NULL DEFAULT current_project(),
    number         bigint NOT NULL,
    lane_run       bigint NOT NULL,
    parent         bigint NOT NULL,  -- ordinal of the parent; 0 without one
    served         bigint NOT NULL,  -- last claim of that lane, run and parent, as above
    open           bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (project, number)
);
CALL protect('work_siblings');
CREATE UNIQUE INDEX work_sibling ON work_siblings (project, lane_run, parent);
CREATE INDEX work_open_siblings ON work_siblings (project, lane_run, served, parent) WHERE open = 1;

CREATE TABLE work_groups (  -- of those, the tuples with one concurrency key
    project        integer NOT NULL DEFAULT current_project(),
    number         bigint NOT NULL,
    siblings       bigint NOT NULL,
    key            text COLLATE "C" NOT NULL,  -- empty for tuples without a key
    head           bigint NOT NULL,  -- no waiting tuple of it is older than this ordinal
    state          bigint NOT NULL DEFAULT 1,  -- 1 open, 0 empty, 2 held by a pool without room
    PRIMARY KEY (project, number)
);
CALL protect('work_groups');
CREATE UNIQUE INDEX work_grouped ON work_groups (project, siblings, key);
CREATE INDEX work_open_groups ON work_groups (project, siblings, head) WHERE state = 1;

CREATE TABLE work_rules (  -- limits and pauses
    project        integer NOT NULL DEFAULT current_project(),
    name           text COLLATE "C" NOT NULL,
    body           bytea NOT NULL,  -- as JSON
    PRIMARY KEY (project, name)
);
CALL protect('work_rules');

CREATE TABLE work_slots (  -- claimed tuples by the pools that they are counted in; only valid claims count
    project        integer NOT NULL DEFAULT current_project(),
    pool           text COLLATE "C" NOT NULL,
    ordinal        bigint NOT NULL,
    PRIMARY KEY (project, pool, ordinal)
);
CALL protect('work_slots');
CREATE INDEX work_slots_by_tuple ON work_slots (project, ordinal);

CREATE TABLE work_starts (  -- the last starts of pools with a rate
    project        integer NOT NULL DEFAULT current_project(),
    pool           text COLLATE "C" NOT NULL,
    number         bigint NOT NULL,
    at             bigint NOT NULL,
    PRIMARY KEY (project, pool, number)
);
CALL protect('work_starts');
CREATE INDEX work_starts_by_time ON work_starts (project, pool, at, number);

CREATE TABLE work_closed (  -- pools without room that hold groups
    project        integer NOT NULL DEFAULT current_project(),
    pool           text COLLATE "C" NOT NULL,
    until          bigint,  -- when one may have room by itself
    PRIMARY KEY (project, pool)
);
CALL protect('work_closed');
CREATE INDEX work_closed_until ON work_closed (project, until) WHERE until IS NOT NULL;

CREATE TABLE work_held (
    project        integer NOT NULL DEFAULT current_project(),
    pool           text COLLATE "C" NOT NULL,
    grp            bigint NOT NULL,
    PRIMARY KEY (project, pool, grp)
);
CALL protect('work_held');

CREATE TABLE work_posted (  -- tuples by the fields named in the settings, without taken ones
    project        integer NOT NULL DEFAULT current_project(),
    path           text COLLATE "C" NOT NULL,
    value          text COLLATE "C" NOT NULL,  -- as JSON
    live           bigint NOT NULL,  -- 1 while it waits or is claimed
    rank           bigint NOT NULL,  -- its negated rank, so that the highest comes first
    ordinal        bigint NOT NULL,
    PRIMARY KEY (project, path, value, live, rank, ordinal)
);
CALL protect('work_posted');

CREATE TABLE work_receipts (
    project        integer NOT NULL DEFAULT current_project(),
    number         bigint NOT NULL,
    id             bytea NOT NULL,
    run            bigint NOT NULL,
    body           bytea NOT NULL,
    PRIMARY KEY (project, number)
);
CALL protect('work_receipts');
CREATE INDEX work_receipt_ids ON work_receipts (project, id);
CREATE INDEX work_receipts_by_run ON work_receipts (project, run, number);

CREATE TABLE work_links (  -- receipts of each tuple in the order they were recorded
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,  -- ordinal of the tuple
    number         bigint NOT NULL,
    receipt        bytea NOT NULL,
    step           bigint,  -- step that it finished, if any
    PRIMARY KEY (project, ordinal, number)
);
CALL protect('work_links');

CREATE TABLE work_hits (  -- uses of receipts from the cache; together with `receipts` they list what a run has
    project        integer NOT NULL DEFAULT current_project(),
    receipt_number bigint NOT NULL,  -- number of the last receipt recorded before it
    number         bigint NOT NULL,  -- number of its link
    run            bigint NOT NULL,
    ordinal        bigint NOT NULL,  -- ordinal of the tuple
    step           bigint NOT NULL,
    receipt        bytea NOT NULL,
    at             bigint NOT NULL,
    PRIMARY KEY (project, receipt_number, number)
);
CALL protect('work_hits');
CREATE INDEX work_hits_by_run ON work_hits (project, run, receipt_number, number);

CREATE TABLE work_results (  -- receipts that are cache hits for a key
    project        integer NOT NULL DEFAULT current_project(),
    key            text COLLATE "C" NOT NULL,
    number         bigint NOT NULL,
    PRIMARY KEY (project, key, number)
);
CALL protect('work_results');

CREATE TABLE work_purged (  -- stored bodies that were deleted to free disk space
    project        integer NOT NULL DEFAULT current_project(),
    sha            bytea NOT NULL,
    at             bigint NOT NULL,
    why            text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, sha)
);
CALL protect('work_purged');

CREATE TABLE work_asked (  -- answers to puts with an idempotency key
    project        integer NOT NULL DEFAULT current_project(),
    key            text COLLATE "C" NOT NULL,
    id             bytea NOT NULL,
    request        text COLLATE "C" NOT NULL,
    accepted       bytea ,
    PRIMARY KEY (project, key)
);
CALL protect('work_asked');

CREATE TABLE work_yools (  -- total cost of successful executions
    project        integer NOT NULL DEFAULT current_project(),
    name           text COLLATE "C" NOT NULL,
    runs           bigint NOT NULL,
    micros         bigint NOT NULL,
    tokens         bigint NOT NULL,
    most_micros    bigint NOT NULL,  -- the most of one execution
    most_tokens    bigint NOT NULL,
    kept_micros    bigint NOT NULL,  -- executions in a row that kept to what was reserved
    kept_tokens    bigint NOT NULL,
    PRIMARY KEY (project, name)
);
CALL protect('work_yools');

CREATE TABLE work_running (  -- running steps
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,
    step           bigint NOT NULL,
    micros         bigint NOT NULL,  -- reserved and not spent yet; below zero if more was spent
    tokens         bigint NOT NULL,
    yool           text COLLATE "C" NOT NULL,  -- empty if it runs under no budget
    PRIMARY KEY (project, ordinal, step)
);
CALL protect('work_running');

CREATE TABLE work_counted (  -- cost of steps by the claim under which they ran
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,
    epoch          bigint NOT NULL,
    counter        bigint NOT NULL,
    step           bigint NOT NULL,
    micros         bigint NOT NULL,
    tokens         bigint NOT NULL,
    PRIMARY KEY (project, ordinal, epoch, counter, step)
);
CALL protect('work_counted');

CREATE TABLE work_blocks (  -- what keeps blocked tuples from being claimed (decision 113)
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,  -- ordinal of the blocked tuple
    blocker        bytea NOT NULL,  -- id of the tuple that must be done first; empty for a reason in words
    reason         text COLLATE "C" NOT NULL,
    by             text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, ordinal, blocker)
);
CALL protect('work_blocks');
CREATE INDEX work_blocks_by_blocker ON work_blocks (project, blocker, ordinal);

CREATE TABLE work_task_changes (  -- the history of each task, in order
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,
    number         bigint NOT NULL,  -- 1, 2, … within the task
    at             bigint NOT NULL,
    what           text COLLATE "C" NOT NULL,
    by             text COLLATE "C" NOT NULL,
    text           text COLLATE "C" NOT NULL,
    owner          text COLLATE "C",
    process        text COLLATE "C",
    PRIMARY KEY (project, ordinal, number)
);
CALL protect('work_task_changes');

CREATE TABLE work_lanes (
    project        integer NOT NULL DEFAULT current_project(),
    lane           text COLLATE "C" NOT NULL,
    waiting        bigint NOT NULL,
    claimed        bigint NOT NULL,
    blocked        bigint NOT NULL,
    PRIMARY KEY (project, lane)
);
CALL protect('work_lanes');

CREATE TABLE work_runs (
    project        integer NOT NULL DEFAULT current_project(),
    number         bigint NOT NULL,
    run            text COLLATE "C" NOT NULL,
    waiting        bigint NOT NULL DEFAULT 0,
    blocked        bigint NOT NULL DEFAULT 0,
    claimed        bigint NOT NULL DEFAULT 0,
    done           bigint NOT NULL DEFAULT 0,
    dead           bigint NOT NULL DEFAULT 0,
    cancelled      bigint NOT NULL DEFAULT 0,
    taken          bigint NOT NULL DEFAULT 0,
    open           bigint NOT NULL DEFAULT 0,  -- nodes of batches
    again          bigint NOT NULL DEFAULT 0,  -- dead letters that were put again
    executed       bigint NOT NULL DEFAULT 0,
    hits           bigint NOT NULL DEFAULT 0,
    micros         bigint NOT NULL DEFAULT 0,
    tokens         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (project, number)
);
CALL protect('work_runs');
CREATE UNIQUE INDEX work_run_names ON work_runs (project, run);

-- Batches (decision 112): a batch is one row here, and what is folded of it needs no others.
CREATE TABLE work_batches (
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,  -- ordinal of the root
    lane           text COLLATE "C" NOT NULL,
    rank           bigint NOT NULL,
    depth          bigint NOT NULL,
    branching      bigint NOT NULL,
    template       bytea NOT NULL,  -- a leaf without its place in the batch
    retries        bigint,
    folded         bigint NOT NULL,  -- number of folded leaves
    PRIMARY KEY (project, ordinal)
);
CALL protect('work_batches');
CREATE INDEX work_folded_batches ON work_batches (project, lane, rank DESC, ordinal) WHERE folded > 0;

CREATE TABLE work_folded_leaves (  -- ranges of leaves that are folded; no two touch
    project        integer NOT NULL DEFAULT current_project(),
    batch          bigint NOT NULL,  -- ordinal of its root
    start          bigint NOT NULL,
    stop           bigint NOT NULL,  -- number behind the last
    PRIMARY KEY (project, batch, start)
);
CALL protect('work_folded_leaves');

CREATE TABLE work_folded_ends (  -- agents that ended while they were folded
    project        integer NOT NULL DEFAULT current_project(),
    batch          bigint NOT NULL,
    level          bigint NOT NULL,
    state          text COLLATE "C" NOT NULL,
    agents         bigint NOT NULL,
    PRIMARY KEY (project, batch, level, state)
);
CALL protect('work_folded_ends');

CREATE TABLE work_agents (  -- agents that are tuples
    project        integer NOT NULL DEFAULT current_project(),
    ordinal        bigint NOT NULL,  -- ordinal of the tuple
    batch          bigint NOT NULL,
    level          bigint NOT NULL,
    number         bigint NOT NULL,  -- position within the level
    children       bigint NOT NULL,  -- 0 for a leaf
    children_left  bigint NOT NULL,  -- children that have not ended
    dead           bigint NOT NULL DEFAULT 0,  -- leaves below it, of the children that have ended
    cancelled      bigint NOT NULL DEFAULT 0,
    idle           bigint NOT NULL,  -- 1 for a leaf that was never claimed and has not ended
    kept           bigint NOT NULL DEFAULT 0,  -- 1 if a tuple from outside the batch is its child or waits for it
    PRIMARY KEY (project, ordinal)
);
CALL protect('work_agents');
CREATE UNIQUE INDEX work_agents_by_place ON work_agents (project, batch, level, number);
CREATE INDEX work_idle_leaves ON work_agents (project, batch, number) WHERE idle = 1;
CREATE INDEX work_kept_agents ON work_agents (project, batch, level, number) WHERE kept = 1;

-- Without statistics of it, a project is taken for one of many. With them, the planner takes one that was begun since for
-- an empty one, and reads all of it where it should ask an index (decision 123).
DO $$
DECLARE work_table text;
BEGIN
    FOR work_table IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'work\_%' LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN project SET STATISTICS 0', work_table);
    END LOOP;
END
$$;
