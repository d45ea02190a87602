-- The knowledge index: a projection of memory.jsonl (decision 1). Delete the file and it is rebuilt.

CREATE TABLE applied (              -- the state of this index: always one row
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    layout     INTEGER NOT NULL,    -- version of this file; an index of another version is rebuilt
    project    TEXT    NOT NULL,
    position   INTEGER NOT NULL,    -- offset behind the last line applied
    seq        INTEGER NOT NULL,    -- number of that line
    checksum   TEXT    NOT NULL,    -- checksum of that line
    at         INTEGER NOT NULL,    -- commit time of that line, in microseconds as all times here
    clock      BLOB    NOT NULL,    -- what the lines up to there say about the machine's clock, as JSON (decision 91)
    ordinal    INTEGER NOT NULL,    -- engrams put so far
    runs       INTEGER NOT NULL,    -- runs opened so far
    pending    INTEGER NOT NULL,    -- rows in the table `pending`
    tail       INTEGER NOT NULL,    -- rows in the table `postings`
    merged     INTEGER NOT NULL,    -- the highest ordinal in `posting_blocks`
    identity   INTEGER NOT NULL     -- facts about runs, agents and policy so far: cached reads of these are valid until it changes
) STRICT;

CREATE TABLE runs (
    number     INTEGER PRIMARY KEY,
    run_id     TEXT    NOT NULL UNIQUE,
    goal       TEXT    NOT NULL,
    opened_at  INTEGER NOT NULL,
    ended      INTEGER NOT NULL DEFAULT 0,
    session    TEXT                 -- session of the client it was opened for
) STRICT;
CREATE INDEX runs_session ON runs (session) WHERE session IS NOT NULL;

CREATE TABLE agents (
    position   INTEGER PRIMARY KEY,
    run        TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    parent     TEXT,
    client_id  TEXT,                -- the id its client knows it by
    session_turns INTEGER NOT NULL, -- turns' worth it may read in one turn
    removed    INTEGER NOT NULL DEFAULT 0,
    tokens_revoked INTEGER NOT NULL DEFAULT 0, -- whether its tokens without an id are revoked
    root       TEXT    NOT NULL,    -- its topmost ancestor, or itself
    added_at   INTEGER NOT NULL,
    UNIQUE (run, name)
) STRICT;
CREATE INDEX agents_root ON agents (run, root, added_at) WHERE parent IS NOT NULL;
CREATE INDEX agents_name ON agents (name);
CREATE INDEX agents_client ON agents (run, client_id) WHERE client_id IS NOT NULL;

CREATE TABLE tokens (               -- tokens that were issued and, when the agent last got one, had not expired
    token_id   TEXT    PRIMARY KEY,
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    issued_by  TEXT    NOT NULL,
    first_at   INTEGER NOT NULL,    -- when somebody else issued the first token of this chain of renewals
    expires_at INTEGER NOT NULL,
    revoked    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_agent ON tokens (run, agent, token_id);

CREATE TABLE policies (             -- the last one applied is in force
    position   INTEGER PRIMARY KEY,
    policy     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL,
    applied_by TEXT    NOT NULL
) STRICT;

CREATE TABLE engrams (
    ordinal    INTEGER PRIMARY KEY,
    space      TEXT    NOT NULL,    -- who may see it: 'p' the project, 'r' and a run's number that run, 'o' waits for delivery to a shared store, 'm' memories, 'u' untrusted
    id         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    confidence REAL    NOT NULL,
    names      TEXT    NOT NULL,    -- base names of the files its pointers lead to
    twin       TEXT    NOT NULL,    -- twin key: near-duplicates have the same one (decision 13)
    more_keys  TEXT    NOT NULL,    -- keys it is posted under besides those in its body
    sequence   INTEGER NOT NULL,    -- the same for what one author put in a row; 0 if it is in no sequence (decision 87)
    body       BLOB    NOT NULL     -- the engram, as JSON
) STRICT;
-- An id is looked up inside a space, so that one the caller may not see takes as long as one that does not exist.
-- In journals of earlier versions an id may occur twice: once in each space, and in expired engrams.
CREATE INDEX engrams_id ON engrams (space, id);
CREATE INDEX engrams_twin ON engrams (space, twin);
CREATE INDEX engrams_expiry ON engrams (expires_at);

CREATE TABLE past (                 -- engrams that were replaced or have expired; only their id and questions about the past find them
    ordinal    INTEGER PRIMARY KEY,
    space      TEXT    NOT NULL,    -- the space it was in; it is posted under '~' and this
    id         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    confidence REAL    NOT NULL,
    names      TEXT    NOT NULL,
    more_keys  TEXT    NOT NULL,
    sequence   INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    replaced_at INTEGER,            -- NULL if it has expired without that
    replaced_by TEXT                -- the engram that replaced it, or the pointer to a memory that did
) STRICT;
CREATE INDEX past_id ON past (space, id);
CREATE INDEX past_replaced_by ON past (replaced_by) WHERE replaced_by IS NOT NULL;

CREATE TABLE used_ids (             -- ids of all engrams ever put, those that have expired or were forgotten included
    id         TEXT    PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- From keys to engrams (decisions 2 and 87): a token is a space and a key. The newest engrams are in `pending`, then some
-- thousand in `postings`, all others in `posting_blocks`; entries move on in batches, which costs a fraction of one by one.
CREATE TABLE pending (
    ordinal    INTEGER PRIMARY KEY,
    tokens     TEXT    NOT NULL
) STRICT;

-- FTS5 serves as a postings store only: a row is an engram, the newest first. Its ranking is not used.
CREATE VIRTUAL TABLE postings USING fts5 (
    tokens,
    content = '',
    contentless_delete = 1,
    detail = none,
    tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);
INSERT INTO postings (postings, rank) VALUES ('automerge', 2);
CREATE VIRTUAL TABLE posting_terms USING fts5vocab ('postings', 'instance');

CREATE TABLE posting_blocks (
    token      TEXT    NOT NULL,
    block      INTEGER NOT NULL,    -- the ordinals divided by 65,536
    offsets    BLOB    NOT NULL,    -- what is left of each, ascending, in two bytes
    PRIMARY KEY (token, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE live (                 -- number of rows in `engrams` by space and kind, expired ones included
    space      TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    engrams    INTEGER NOT NULL,
    PRIMARY KEY (space, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE votes (                -- roots of the agent hierarchy that confirmed an engram
    ordinal    INTEGER NOT NULL,
    root       TEXT    NOT NULL,
    PRIMARY KEY (ordinal, root)
) STRICT, WITHOUT ROWID;

CREATE TABLE pins (                 -- engrams that come first in every brief
    position   INTEGER PRIMARY KEY,
    ordinal    INTEGER NOT NULL UNIQUE
) STRICT;

CREATE TABLE adoptions (            -- engrams that came from elsewhere; untrusted while their space is 'u'
    ordinal    INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL,
    body       BLOB    NOT NULL     -- where it came from, and who has confirmed it, as JSON
) STRICT;
CREATE INDEX adoptions_id ON adoptions (id);

CREATE TABLE captures (             -- engrams taken from prose; unconfirmed while their space begins with 'c'
    ordinal    INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL,
    body       BLOB    NOT NULL     -- the answer that it came from, and who has confirmed it, as JSON
) STRICT;
CREATE INDEX captures_id ON captures (id);

CREATE TABLE learned (              -- engrams that quote the repository
    ordinal    INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL,
    body       BLOB    NOT NULL     -- where it was learned, as JSON
) STRICT;
CREATE INDEX learned_id ON learned (id);

CREATE TABLE learned_from (         -- the commit that was learned from last: at most one row
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    commit_id  TEXT    NOT NULL
) STRICT;

CREATE TABLE unwanted (             -- keys of what was learned and then forgotten by a person
    key        TEXT    PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE uses (                 -- engrams that others named as used; the ids may have left the project since
    position   INTEGER PRIMARY KEY,
    engram     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,    -- what used it: engram, message, broadcast, contribution or review
    item       TEXT    NOT NULL,    -- id of what used it
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    UNIQUE (kind, item, engram)
) STRICT;
CREATE INDEX uses_engram ON uses (engram, position);

CREATE TABLE listed (               -- position up to which each agent was shown everything by `query --since-last`
    run        TEXT    NOT NULL,    -- empty for a person, who has one position for all runs
    agent      TEXT    NOT NULL,
    position   INTEGER NOT NULL,
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE recalled (             -- engrams that each agent was shown unasked
    position   INTEGER PRIMARY KEY,
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    engram     TEXT    NOT NULL,
    stale      INTEGER NOT NULL,    -- 1 if it was announced as stale
    UNIQUE (run, agent, engram)
) STRICT;

CREATE TABLE recalled_tasks (       -- what was found for the tasks of sub-agents that have not started yet
    position   INTEGER PRIMARY KEY,
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,    -- the agent that starts them
    task       TEXT    NOT NULL,
    engrams    TEXT    NOT NULL     -- ids, separated by spaces
) STRICT;
CREATE INDEX recalled_tasks_agent ON recalled_tasks (run, agent, task, position);

CREATE TABLE puts (                 -- engrams put in each of the last seconds, for the rate limit
    root       TEXT    NOT NULL,    -- the author's topmost ancestor
    second     INTEGER NOT NULL,    -- seconds since 1970
    author     TEXT    NOT NULL,
    engrams    INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,    -- time of the last of them
    PRIMARY KEY (root, second, author)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (                -- last turn of each agent, and what it has read and put in it
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    repo       INTEGER NOT NULL,
    artifact   INTEGER NOT NULL,
    sam        INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    run_tokens INTEGER NOT NULL,    -- tokens read in the run
    put_tokens INTEGER NOT NULL,
    spoken_tokens INTEGER NOT NULL, -- tokens of run_tokens that were read under the names of descendants
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE reads (                -- parts of contents that dereferences returned (decision 56)
    content    TEXT    NOT NULL,    -- digest of the content, or id of a file
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    first      INTEGER NOT NULL,
    last       INTEGER NOT NULL,
    to_end     INTEGER NOT NULL,    -- whether `last` is the end of the content
    unit       TEXT    NOT NULL,    -- what first and last count: lines or bytes
    PRIMARY KEY (content, run, agent, first, last, to_end, unit)
) STRICT, WITHOUT ROWID;
CREATE INDEX reads_of_admin ON reads (content) WHERE agent = 'admin';

CREATE TABLE mail (                 -- inboxes of all agents
    position   INTEGER PRIMARY KEY,
    run        TEXT    NOT NULL,
    recipient  TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    item       TEXT    NOT NULL,
    sender     TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    text       TEXT    NOT NULL,
    engrams    TEXT    NOT NULL,    -- ids of what it holds, separated by spaces
    requests   TEXT    NOT NULL,
    grants     TEXT    NOT NULL
) STRICT;
CREATE INDEX mail_inbox ON mail (run, recipient, position);
CREATE INDEX mail_of_people ON mail (position) WHERE recipient = 'admin';

CREATE TABLE mail_handed_over (     -- position up to which each agent was shown its mail
    run        TEXT    NOT NULL,    -- empty for a person, who has one inbox for all runs
    agent      TEXT    NOT NULL,
    position   INTEGER NOT NULL,
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE packs (                -- pointer packs of broadcasts
    position   INTEGER PRIMARY KEY,
    run        TEXT    NOT NULL,
    sender     TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    pack       BLOB    NOT NULL     -- the pointers and for whom they are, as JSON
) STRICT;
CREATE INDEX packs_run ON packs (run, position);

CREATE TABLE requests (             -- requests to read more than a turn allows
    request_id TEXT    PRIMARY KEY,
    run        TEXT    NOT NULL,
    asked      BLOB    NOT NULL,    -- the request, as JSON
    answered   INTEGER NOT NULL DEFAULT 0,
    grant_id   TEXT
) STRICT;
CREATE INDEX requests_open ON requests (run) WHERE answered = 0;

CREATE TABLE grants (
    grant_id   TEXT    PRIMARY KEY,
    run        TEXT    NOT NULL,
    parent     TEXT    NOT NULL,
    child      TEXT    NOT NULL,
    block_id   TEXT    NOT NULL,
    narrowed_from TEXT,             -- the grant it was passed on from
    cap_tokens INTEGER NOT NULL,
    uses       INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    issued     BLOB    NOT NULL     -- the grant, as JSON
) STRICT;
CREATE INDEX grants_child ON grants (run, child);
CREATE INDEX grants_run ON grants (run);
CREATE INDEX grants_expiry ON grants (run, expires_at);

CREATE TABLE reservations (         -- paths that agents have reserved; expired ones go with the next that is made
    reservation_id TEXT PRIMARY KEY,
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    lease      BLOB    NOT NULL     -- the reservation, as JSON
) STRICT;

CREATE TABLE blocks (               -- tokens and uses spent of each block of a grant, and whether it is revoked
    block_id   TEXT    PRIMARY KEY,
    tokens     INTEGER NOT NULL DEFAULT 0,
    uses       INTEGER NOT NULL DEFAULT 0,
    revoked    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE given_budgets (        -- budgets that a parent last gave a child
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    budgets    BLOB    NOT NULL,
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE rejections (           -- messages of an agent that were rejected and not resent yet
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    kind       TEXT    NOT NULL,-- form of the message: child or parent
    rejection  TEXT    NOT NULL,
    work       TEXT    NOT NULL,-- short digests of its claims and files, separated by spaces
    PRIMARY KEY (run, agent, kind, rejection)
) STRICT, WITHOUT ROWID;

CREATE TABLE briefs (
    run        TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    agent      TEXT    NOT NULL,    -- the agent it was made for; empty for all agents of the role
    at         INTEGER NOT NULL,
    lines      TEXT    NOT NULL,    -- separated by newlines
    PRIMARY KEY (run, role, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX briefs_agent ON briefs (run, role, agent, version);

CREATE TABLE agent_paths (          -- files that an agent read or pointed at
    run        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (run, agent, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_paths_time ON agent_paths (run, agent, last_at DESC, path);

CREATE TABLE remembered (           -- answers to requests with an idempotency key
    caller     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    request    TEXT    NOT NULL,
    answer     BLOB    NOT NULL,
    PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;

-- Every version of every episode, numbered in the order they were made.
CREATE TABLE episodes (
    ordinal INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    slug TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    importance REAL NOT NULL,
    pinned INTEGER NOT NULL,
    expires_at INTEGER,
    last INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (kind, slug, version)
);
CREATE INDEX episodes_by_importance ON episodes (importance, ordinal) WHERE last = 1;
CREATE INDEX episodes_pinned ON episodes (importance, ordinal) WHERE last = 1 AND pinned = 1;
CREATE INDEX episodes_by_time ON episodes (at) WHERE last = 1;

CREATE TABLE snapshots (            -- who inherited which snapshot, each agent once
    id         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    heir       TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    recipe     BLOB,                -- what it was made of, as JSON, in the row of the first who took it
    PRIMARY KEY (id, run, by, heir)
) STRICT, WITHOUT ROWID;

-- Contributions in their current state.
CREATE TABLE contradictions (       -- pairs of claims that wait for a decision, or had one
    id         TEXT    PRIMARY KEY,
    newer      TEXT    NOT NULL,
    older      TEXT    NOT NULL,
    risk       TEXT    NOT NULL,
    waiting    INTEGER NOT NULL,
    body       BLOB    NOT NULL     -- the contradiction, as JSON
) STRICT, WITHOUT ROWID;
CREATE INDEX contradictions_newer ON contradictions (newer) WHERE waiting = 1;
CREATE INDEX contradictions_older ON contradictions (older) WHERE waiting = 1;
CREATE INDEX contradictions_risk ON contradictions (risk) WHERE waiting = 1;

CREATE TABLE contributions (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    thread TEXT NOT NULL,
    session TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    similarity_key TEXT NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX contributions_by_words ON contributions (session, content_hash, at);
CREATE INDEX contributions_by_likeness ON contributions (similarity_key);
CREATE INDEX contributions_by_status ON contributions (status, id);

-- Figures, added up as facts are applied (decision 20). gateway/tallies.py says what each column counts.

CREATE TABLE tallies (              -- totals of each agent of a run
    run            TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    role           TEXT    NOT NULL,
    turns          INTEGER NOT NULL,
    messages       INTEGER NOT NULL,
    broadcasts     INTEGER NOT NULL,
    inline_tokens  INTEGER NOT NULL,
    rejections     INTEGER NOT NULL,
    resends        INTEGER NOT NULL,
    derefs         INTEGER NOT NULL,
    deref_tokens   INTEGER NOT NULL,
    requests       INTEGER NOT NULL,
    grants         INTEGER NOT NULL,
    engrams        INTEGER NOT NULL,
    contradictions INTEGER NOT NULL,
    pointed_tokens INTEGER NOT NULL,
    pointed_read_tokens INTEGER NOT NULL,
    denials        INTEGER NOT NULL,
    warnings       INTEGER NOT NULL,
    rejected_tokens INTEGER NOT NULL,
    counted_turn   INTEGER NOT NULL,    -- number of the last turn that was counted
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE delivered (            -- content that messages pointed an agent at (decision 80)
    run            TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    digest         TEXT    NOT NULL,
    file           TEXT,                -- id of the file that the content is in
    first          INTEGER NOT NULL,
    last           INTEGER,             -- NULL if it goes to the end of the file
    tokens         INTEGER NOT NULL,
    read_tokens    INTEGER NOT NULL,    -- what the agent has read of it since, at most `tokens`
    PRIMARY KEY (run, agent, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivered_by_file ON delivered (run, agent, file) WHERE file IS NOT NULL;

CREATE TABLE kinds_put (            -- engrams put by each agent of a run, by kind
    run            TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    role           TEXT    NOT NULL,
    engrams        INTEGER NOT NULL,
    PRIMARY KEY (run, agent, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE outcomes (             -- what became of the newest messages of each agent of a run
    run            TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    letters        TEXT    NOT NULL,    -- in order: a accepted, r rejected, s sent again and accepted
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE denials (              -- denied calls of each agent of a run, by error code
    run            TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    code           TEXT    NOT NULL,
    role           TEXT    NOT NULL,
    denials        INTEGER NOT NULL,
    PRIMARY KEY (run, agent, code)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (              -- totals of each role, for each minute, hour and day in which anything was counted
    bucket         TEXT    NOT NULL,
    start          INTEGER NOT NULL,
    run            TEXT    NOT NULL,
    role           TEXT    NOT NULL,
    turns          INTEGER NOT NULL,
    messages       INTEGER NOT NULL,
    broadcasts     INTEGER NOT NULL,
    inline_tokens  INTEGER NOT NULL,
    rejections     INTEGER NOT NULL,
    resends        INTEGER NOT NULL,
    derefs         INTEGER NOT NULL,
    deref_tokens   INTEGER NOT NULL,
    requests       INTEGER NOT NULL,
    grants         INTEGER NOT NULL,
    engrams        INTEGER NOT NULL,
    contradictions INTEGER NOT NULL,
    pointed_tokens INTEGER NOT NULL,
    pointed_read_tokens INTEGER NOT NULL,
    denials        INTEGER NOT NULL,
    warnings       INTEGER NOT NULL,
    rejected_tokens INTEGER NOT NULL,
    PRIMARY KEY (bucket, start, run, role)
) STRICT, WITHOUT ROWID;

CREATE TABLE promotions (           -- requests to promote an engram to org or global
    request_id TEXT    PRIMARY KEY,
    engram     TEXT    NOT NULL,
    asked      BLOB    NOT NULL,    -- the fact, as JSON
    asked_at   INTEGER NOT NULL,
    answered   BLOB,                -- the fact of the answer; NULL while it waits
    answered_at INTEGER
) STRICT;
CREATE INDEX promotions_waiting ON promotions (engram) WHERE answered IS NULL;

CREATE TABLE gate_overrides (       -- findings of the merge gate that somebody let pass
    position    INTEGER PRIMARY KEY,
    fingerprint TEXT    NOT NULL,
    body        BLOB    NOT NULL,   -- the fact, as JSON
    made_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX gate_overrides_of ON gate_overrides (fingerprint);
