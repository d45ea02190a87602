-- What the team knows, as the lines of its journal say (decision 1): the tables of SQLite, each with its project.
-- Text is compared byte by byte, as SQLite does, so that every list has the same order on each back end.

-- Returns the number of the next row of a table in this project. Only its one writer calls it.
CREATE FUNCTION next_position(table_name text, column_name text DEFAULT 'position') RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    last bigint;
BEGIN
    EXECUTE format('SELECT max(%I) FROM %I', column_name, table_name) INTO last;
    RETURN coalesce(last, 0) + 1;
END
$$;

CREATE TABLE applied (  -- how far these tables have come: one row, which a writer locks
    position   bigint NOT NULL,  -- bytes of the lines applied
    seq        bigint NOT NULL,  -- number of the last of them
    checksum   text COLLATE "C" NOT NULL,  -- checksum of that line
    at         bigint NOT NULL,  -- commit time of that line, in microseconds as all times here
    clock      bytea NOT NULL,  -- what the lines up to there say about the machines' clocks, as JSON (decision 91)
    ordinal    bigint NOT NULL,  -- engrams put so far
    runs       bigint NOT NULL,  -- runs opened so far
    pending    bigint NOT NULL,  -- rows in the table `pending`
    tail       bigint NOT NULL,  -- engrams in the table `postings`
    merged     bigint NOT NULL,  -- the highest ordinal in `posting_blocks`
    built      text COLLATE "C" NOT NULL,  -- another one after each rebuild, which may number rows otherwise
    identity   bigint NOT NULL,  -- facts about runs, agents and policy so far: cached reads of these are valid until it changes
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project)
);
CALL protect('applied');

CREATE TABLE runs (
    number     bigint NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    goal       text COLLATE "C" NOT NULL,
    opened_at  bigint NOT NULL,
    ended      bigint NOT NULL DEFAULT 0,
    session    text COLLATE "C",  -- session of the client it was opened for
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, number),
    UNIQUE (project, run_id)
);
CALL protect('runs');
CREATE INDEX runs_session ON runs (project, session) WHERE session IS NOT NULL;

CREATE TABLE agents (
    position       bigint NOT NULL DEFAULT next_position('agents'),
    run            text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    role           text COLLATE "C" NOT NULL,
    parent         text COLLATE "C",
    client_id      text COLLATE "C",  -- the id its client knows it by
    session_turns  bigint NOT NULL,  -- turns' worth it may read in one turn
    removed        bigint NOT NULL DEFAULT 0,
    tokens_revoked bigint NOT NULL DEFAULT 0,  -- whether its tokens without an id are revoked
    root           text COLLATE "C" NOT NULL,  -- its topmost ancestor, or itself
    added_at       bigint NOT NULL,
    project        integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position),
    UNIQUE (project, run, name)
);
CALL protect('agents');
CREATE INDEX agents_root ON agents (project, run, root, added_at) WHERE parent IS NOT NULL;
CREATE INDEX agents_name ON agents (project, name);
CREATE INDEX agents_client ON agents (project, run, client_id) WHERE client_id IS NOT NULL;

CREATE TABLE tokens (               -- tokens that were issued and, when the agent last got one, had not expired
    token_id   text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    issued_by  text COLLATE "C" NOT NULL,
    first_at   bigint NOT NULL,  -- when somebody else issued the first token of this chain of renewals
    expires_at bigint NOT NULL,
    revoked    bigint NOT NULL DEFAULT 0,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, token_id)
);
CALL protect('tokens');
CREATE INDEX tokens_agent ON tokens (project, run, agent, token_id);

CREATE TABLE policies (             -- the last one applied is in force
    position   bigint NOT NULL DEFAULT next_position('policies'),
    policy     text COLLATE "C" NOT NULL,
    applied_at bigint NOT NULL,
    applied_by text COLLATE "C" NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position)
);
CALL protect('policies');

CREATE TABLE engrams (
    ordinal    bigint NOT NULL,
    space      text COLLATE "C" NOT NULL,  -- who may see it: 'p' the project, 'r' and a run's number that run, 'o' waits for delivery to a shared store, 'm' memories, 'u' untrusted
    id         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    confidence double precision NOT NULL,
    names      text COLLATE "C" NOT NULL,  -- base names of the files its pointers lead to
    twin       text COLLATE "C" NOT NULL,  -- twin key: near-duplicates have the same one (decision 13)
    more_keys  text COLLATE "C" NOT NULL,  -- keys it is posted under besides those in its body
    sequence   bigint NOT NULL,  -- the same for what one author put in a row; 0 if it is in no sequence (decision 87)
    body       bytea NOT NULL,  -- the engram, as JSON
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal)
);
CALL protect('engrams');
-- An id is looked up inside a space, so that one the caller may not see takes as long as one that does not exist.
-- In journals of earlier versions an id may occur twice: once in each space, and in expired engrams.
-- The ordinal is in the index, so that the newest is found without sorting or walking backwards through all.
CREATE INDEX engrams_id ON engrams (project, space, id, ordinal);
CREATE INDEX engrams_twin ON engrams (project, space, twin, ordinal);
CREATE INDEX engrams_expiry ON engrams (project, expires_at);

CREATE TABLE past (                 -- engrams that were replaced or have expired; only their id and questions about the past find them
    ordinal     bigint NOT NULL,
    space       text COLLATE "C" NOT NULL,  -- the space it was in; it is posted under '~' and this
    id          text COLLATE "C" NOT NULL,
    run         text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    scope       text COLLATE "C" NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint NOT NULL,
    confidence  double precision NOT NULL,
    names       text COLLATE "C" NOT NULL,
    more_keys   text COLLATE "C" NOT NULL,
    sequence    bigint NOT NULL,
    body        bytea NOT NULL,
    replaced_at bigint,  -- NULL if it has expired without that
    replaced_by text COLLATE "C",  -- the engram that replaced it, or the pointer to a memory that did
    project     integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal)
);
CALL protect('past');
CREATE INDEX past_id ON past (project, space, id, ordinal);
CREATE INDEX past_replaced_by ON past (project, replaced_by) WHERE replaced_by IS NOT NULL;

CREATE TABLE used_ids (             -- ids of all engrams ever put, those that have expired or were forgotten included
    id         text COLLATE "C" NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, id)
);
CALL protect('used_ids');

-- From keys to engrams (decisions 2 and 87): a token is a space and a key. The newest engrams are in `pending`, then some
-- thousand in `postings`, all others in `posting_blocks`; entries move on in batches, which costs a fraction of one by one.
CREATE TABLE pending (
    ordinal    bigint NOT NULL,
    tokens     text COLLATE "C" NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal)
);
CALL protect('pending');

CREATE TABLE postings (
    token      text COLLATE "C" NOT NULL,
    row_id     bigint NOT NULL,  -- 2^40 less the ordinal: upwards, the newest come first
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, token, row_id)
);
CALL protect('postings');
CREATE INDEX postings_row ON postings (project, row_id);

CREATE TABLE posting_blocks (
    token      text COLLATE "C" NOT NULL,
    block      bigint NOT NULL,  -- the ordinals divided by 65,536
    offsets    bytea NOT NULL,  -- what is left of each, ascending, in two bytes
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, token, block)
);
CALL protect('posting_blocks');

CREATE TABLE live (                 -- number of rows in `engrams` by space and kind, expired ones included
    space      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    engrams    bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, space, kind)
);
CALL protect('live');

CREATE TABLE votes (                -- roots of the agent hierarchy that confirmed an engram
    ordinal    bigint NOT NULL,
    root       text COLLATE "C" NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal, root)
);
CALL protect('votes');

CREATE TABLE pins (                 -- engrams that come first in every brief
    position   bigint NOT NULL DEFAULT next_position('pins'),
    ordinal    bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position),
    UNIQUE (project, ordinal)
);
CALL protect('pins');

CREATE TABLE adoptions (            -- engrams that came from elsewhere; untrusted while their space is 'u'
    ordinal    bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,  -- where it came from, and who has confirmed it, as JSON
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal)
);
CALL protect('adoptions');
CREATE INDEX adoptions_id ON adoptions (project, id);

CREATE TABLE captures (             -- engrams taken from prose; unconfirmed while their space begins with 'c'
    ordinal    bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,  -- the answer that it came from, and who has confirmed it, as JSON
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal)
);
CALL protect('captures');
CREATE INDEX captures_id ON captures (project, id);

CREATE TABLE learned (              -- engrams that quote the repository
    ordinal    bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,  -- where it was learned, as JSON
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal)
);
CALL protect('learned');
CREATE INDEX learned_id ON learned (project, id);

CREATE TABLE learned_from (         -- the commit that was learned from last: at most one row
    one        bigint NOT NULL CHECK (one = 1),
    commit_id  text COLLATE "C" NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, one)
);
CALL protect('learned_from');

CREATE TABLE unwanted (             -- keys of what was learned and then forgotten by a person
    key        text COLLATE "C" NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, key)
);
CALL protect('unwanted');

CREATE TABLE uses (                 -- engrams that others named as used; the ids may have left the project since
    position   bigint NOT NULL DEFAULT next_position('uses'),
    engram     text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,  -- what used it: engram, message, broadcast, contribution or review
    item       text COLLATE "C" NOT NULL,  -- id of what used it
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position),
    UNIQUE (project, kind, item, engram)
);
CALL protect('uses');
CREATE INDEX uses_engram ON uses (project, engram, position);

CREATE TABLE listed (               -- position up to which each agent was shown everything by `query --since-last`
    run        text COLLATE "C" NOT NULL,  -- empty for a person, who has one position for all runs
    agent      text COLLATE "C" NOT NULL,
    position   bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent)
);
CALL protect('listed');

CREATE TABLE recalled (             -- engrams that each agent was shown unasked
    position   bigint NOT NULL DEFAULT next_position('recalled'),
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    engram     text COLLATE "C" NOT NULL,
    stale      bigint NOT NULL,  -- 1 if it was announced as stale
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position),
    UNIQUE (project, run, agent, engram)
);
CALL protect('recalled');

CREATE TABLE recalled_tasks (       -- what was found for the tasks of sub-agents that have not started yet
    position   bigint NOT NULL DEFAULT next_position('recalled_tasks'),
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,  -- the agent that starts them
    task       text COLLATE "C" NOT NULL,
    engrams    text COLLATE "C" NOT NULL,  -- ids, separated by spaces
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position)
);
CALL protect('recalled_tasks');
CREATE INDEX recalled_tasks_agent ON recalled_tasks (project, run, agent, task, position);

CREATE TABLE puts (                 -- engrams put in each of the last seconds, for the rate limit
    root       text COLLATE "C" NOT NULL,  -- the author's topmost ancestor
    second     bigint NOT NULL,  -- seconds since 1970
    author     text COLLATE "C" NOT NULL,
    engrams    bigint NOT NULL,
    last_at    bigint NOT NULL,  -- time of the last of them
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, root, second, author)
);
CALL protect('puts');

CREATE TABLE turns (                -- last turn of each agent, and what it has read and put in it
    run           text COLLATE "C" NOT NULL,
    agent         text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    last_at       bigint NOT NULL,
    repo          bigint NOT NULL,
    artifact      bigint NOT NULL,
    sam           bigint NOT NULL,
    tokens        bigint NOT NULL,
    run_tokens    bigint NOT NULL,  -- tokens read in the run
    put_tokens    bigint NOT NULL,
    spoken_tokens bigint NOT NULL,  -- tokens of run_tokens that were read under the names of descendants
    project       integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent)
);
CALL protect('turns');

CREATE TABLE reads (                -- parts of contents that dereferences returned (decision 56)
    content    text COLLATE "C" NOT NULL,  -- digest of the content, or id of a file
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    first      bigint NOT NULL,
    last       bigint NOT NULL,
    to_end     bigint NOT NULL,  -- whether `last` is the end of the content
    unit       text COLLATE "C" NOT NULL,  -- what first and last count: lines or bytes
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, content, run, agent, first, last, to_end, unit)
);
CALL protect('reads');
CREATE INDEX reads_of_admin ON reads (project, content) WHERE agent = 'admin';

CREATE TABLE mail (                 -- inboxes of all agents
    position   bigint NOT NULL DEFAULT next_position('mail'),
    run        text COLLATE "C" NOT NULL,
    recipient  text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    item       text COLLATE "C" NOT NULL,
    sender     text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    text       text COLLATE "C" NOT NULL,
    engrams    text COLLATE "C" NOT NULL,  -- ids of what it holds, separated by spaces
    requests   text COLLATE "C" NOT NULL,
    grants     text COLLATE "C" NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position)
);
CALL protect('mail');
CREATE INDEX mail_inbox ON mail (project, run, recipient, position);
CREATE INDEX mail_of_people ON mail (project, position) WHERE recipient = 'admin';

CREATE TABLE mail_handed_over (     -- position up to which each agent was shown its mail
    run        text COLLATE "C" NOT NULL,  -- empty for a person, who has one inbox for all runs
    agent      text COLLATE "C" NOT NULL,
    position   bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent)
);
CALL protect('mail_handed_over');

CREATE TABLE packs (                -- pointer packs of broadcasts
    position   bigint NOT NULL DEFAULT next_position('packs'),
    run        text COLLATE "C" NOT NULL,
    sender     text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    pack       bytea NOT NULL,  -- the pointers and for whom they are, as JSON
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position)
);
CALL protect('packs');
CREATE INDEX packs_run ON packs (project, run, position);

CREATE TABLE requests (             -- requests to read more than a turn allows
    request_id text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    asked      bytea NOT NULL,  -- the request, as JSON
    answered   bigint NOT NULL DEFAULT 0,
    grant_id   text COLLATE "C",
    rowid      bigint GENERATED ALWAYS AS IDENTITY,  -- the order in which they were made
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, request_id)
);
CALL protect('requests');
CREATE INDEX requests_open ON requests (project, run) WHERE answered = 0;

CREATE TABLE grants (
    grant_id      text COLLATE "C" NOT NULL,
    run           text COLLATE "C" NOT NULL,
    parent        text COLLATE "C" NOT NULL,
    child         text COLLATE "C" NOT NULL,
    block_id      text COLLATE "C" NOT NULL,
    narrowed_from text COLLATE "C",  -- the grant it was passed on from
    cap_tokens    bigint NOT NULL,
    uses          bigint NOT NULL,
    expires_at    bigint NOT NULL,
    issued        bytea NOT NULL,  -- the grant, as JSON
    rowid         bigint GENERATED ALWAYS AS IDENTITY,  -- the order in which they were made
    project       integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, grant_id)
);
CALL protect('grants');
CREATE INDEX grants_child ON grants (project, run, child);
CREATE INDEX grants_run ON grants (project, run);
CREATE INDEX grants_expiry ON grants (project, run, expires_at);

CREATE TABLE reservations (         -- paths that agents have reserved; expired ones go with the next that is made
    reservation_id text COLLATE "C" NOT NULL,
    run            text COLLATE "C" NOT NULL,
    agent          text COLLATE "C" NOT NULL,
    expires_at     bigint NOT NULL,
    lease          bytea NOT NULL,  -- the reservation, as JSON
    rowid          bigint GENERATED ALWAYS AS IDENTITY,  -- the order in which they were made
    project        integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, reservation_id)
);
CALL protect('reservations');

CREATE TABLE blocks (               -- tokens and uses spent of each block of a grant, and whether it is revoked
    block_id   text COLLATE "C" NOT NULL,
    tokens     bigint NOT NULL DEFAULT 0,
    uses       bigint NOT NULL DEFAULT 0,
    revoked    bigint NOT NULL DEFAULT 0,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, block_id)
);
CALL protect('blocks');

CREATE TABLE given_budgets (        -- budgets that a parent last gave a child
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    budgets    bytea NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent)
);
CALL protect('given_budgets');

CREATE TABLE rejections (           -- messages of an agent that were rejected and not resent yet
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,  -- form of the message: child or parent
    rejection  text COLLATE "C" NOT NULL,
    work       text COLLATE "C" NOT NULL,  -- short digests of its claims and files, separated by spaces
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent, kind, rejection)
);
CALL protect('rejections');

CREATE TABLE briefs (
    run        text COLLATE "C" NOT NULL,
    role       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    agent      text COLLATE "C" NOT NULL,  -- the agent it was made for; empty for all agents of the role
    at         bigint NOT NULL,
    lines      text COLLATE "C" NOT NULL,  -- separated by newlines
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, role, version)
);
CALL protect('briefs');
CREATE INDEX briefs_agent ON briefs (project, run, role, agent, version);

CREATE TABLE agent_paths (          -- files that an agent read or pointed at
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    path       text COLLATE "C" NOT NULL,
    last_at    bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent, path)
);
CALL protect('agent_paths');
CREATE INDEX agent_paths_time ON agent_paths (project, run, agent, last_at DESC, path);

CREATE TABLE remembered (           -- answers to requests with an idempotency key
    caller     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    request    text COLLATE "C" NOT NULL,
    answer     bytea NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, caller, key)
);
CALL protect('remembered');

-- Every version of every episode, numbered in the order they were made.
CREATE TABLE episodes (
    ordinal    bigint NOT NULL DEFAULT next_position('episodes', 'ordinal'),
    kind       text COLLATE "C" NOT NULL,
    slug       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    at         bigint NOT NULL,
    importance double precision NOT NULL,
    pinned     bigint NOT NULL,
    expires_at bigint,
    last       bigint NOT NULL,
    body       bytea NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, ordinal),
    UNIQUE (project, kind, slug, version)
);
CALL protect('episodes');
CREATE INDEX episodes_by_importance ON episodes (project, importance, ordinal) WHERE last = 1;
CREATE INDEX episodes_pinned ON episodes (project, importance, ordinal) WHERE last = 1 AND pinned = 1;
CREATE INDEX episodes_by_time ON episodes (project, at) WHERE last = 1;

CREATE TABLE snapshots (            -- who inherited which snapshot, each agent once
    id         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    by         text COLLATE "C" NOT NULL,
    heir       text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    recipe     bytea,  -- what it was made of, as JSON, in the row of the first who took it
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, id, run, by, heir)
);
CALL protect('snapshots');

-- Contributions in their current state.
CREATE TABLE contradictions (       -- pairs of claims that wait for a decision, or had one
    id         text COLLATE "C" NOT NULL,
    newer      text COLLATE "C" NOT NULL,
    older      text COLLATE "C" NOT NULL,
    risk       text COLLATE "C" NOT NULL,
    waiting    bigint NOT NULL,
    body       bytea NOT NULL,  -- the contradiction, as JSON
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, id)
);
CALL protect('contradictions');
CREATE INDEX contradictions_newer ON contradictions (project, newer) WHERE waiting = 1;
CREATE INDEX contradictions_older ON contradictions (project, older) WHERE waiting = 1;
CREATE INDEX contradictions_risk ON contradictions (project, risk) WHERE waiting = 1;

CREATE TABLE contributions (
    id             text COLLATE "C" NOT NULL,
    status         text COLLATE "C" NOT NULL,
    thread         text COLLATE "C" NOT NULL,
    session        text COLLATE "C" NOT NULL,
    content_hash   text COLLATE "C" NOT NULL,
    similarity_key text COLLATE "C" NOT NULL,
    at             bigint NOT NULL,
    body           bytea NOT NULL,
    project        integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, id)
);
CALL protect('contributions');
CREATE INDEX contributions_by_words ON contributions (project, session, content_hash, at);
CREATE INDEX contributions_by_likeness ON contributions (project, similarity_key);
CREATE INDEX contributions_by_status ON contributions (project, status, id);

-- Figures, added up as facts are applied (decision 20). gateway/tallies.py says what each column counts.

CREATE TABLE tallies (              -- totals of each agent of a run
    run                 text COLLATE "C" NOT NULL,
    agent               text COLLATE "C" NOT NULL,
    role                text COLLATE "C" NOT NULL,
    turns               bigint NOT NULL,
    messages            bigint NOT NULL,
    broadcasts          bigint NOT NULL,
    inline_tokens       bigint NOT NULL,
    rejections          bigint NOT NULL,
    resends             bigint NOT NULL,
    derefs              bigint NOT NULL,
    deref_tokens        bigint NOT NULL,
    requests            bigint NOT NULL,
    grants              bigint NOT NULL,
    engrams             bigint NOT NULL,
    contradictions      bigint NOT NULL,
    pointed_tokens      bigint NOT NULL,
    pointed_read_tokens bigint NOT NULL,
    denials             bigint NOT NULL,
    warnings            bigint NOT NULL,
    rejected_tokens     bigint NOT NULL,
    counted_turn        bigint NOT NULL,  -- number of the last turn that was counted
    project             integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent)
);
CALL protect('tallies');

CREATE TABLE delivered (            -- content that messages pointed an agent at (decision 80)
    run         text COLLATE "C" NOT NULL,
    agent       text COLLATE "C" NOT NULL,
    digest      text COLLATE "C" NOT NULL,
    file        text COLLATE "C",  -- id of the file that the content is in
    first       bigint NOT NULL,
    last        bigint,  -- NULL if it goes to the end of the file
    tokens      bigint NOT NULL,
    read_tokens bigint NOT NULL,  -- what the agent has read of it since, at most `tokens`
    project     integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent, digest)
);
CALL protect('delivered');
CREATE INDEX delivered_by_file ON delivered (project, run, agent, file) WHERE file IS NOT NULL;

CREATE TABLE kinds_put (            -- engrams put by each agent of a run, by kind
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    role       text COLLATE "C" NOT NULL,
    engrams    bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent, kind)
);
CALL protect('kinds_put');

CREATE TABLE outcomes (             -- what became of the newest messages of each agent of a run
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    letters    text COLLATE "C" NOT NULL,  -- in order: a accepted, r rejected, s sent again and accepted
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent)
);
CALL protect('outcomes');

CREATE TABLE denials (              -- denied calls of each agent of a run, by error code
    run        text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    code       text COLLATE "C" NOT NULL,
    role       text COLLATE "C" NOT NULL,
    denials    bigint NOT NULL,
    project    integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, run, agent, code)
);
CALL protect('denials');

CREATE TABLE history (              -- totals of each role, for each minute, hour and day in which anything was counted
    bucket              text COLLATE "C" NOT NULL,
    start               bigint NOT NULL,
    run                 text COLLATE "C" NOT NULL,
    role                text COLLATE "C" NOT NULL,
    turns               bigint NOT NULL,
    messages            bigint NOT NULL,
    broadcasts          bigint NOT NULL,
    inline_tokens       bigint NOT NULL,
    rejections          bigint NOT NULL,
    resends             bigint NOT NULL,
    derefs              bigint NOT NULL,
    deref_tokens        bigint NOT NULL,
    requests            bigint NOT NULL,
    grants              bigint NOT NULL,
    engrams             bigint NOT NULL,
    contradictions      bigint NOT NULL,
    pointed_tokens      bigint NOT NULL,
    pointed_read_tokens bigint NOT NULL,
    denials             bigint NOT NULL,
    warnings            bigint NOT NULL,
    rejected_tokens     bigint NOT NULL,
    project             integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, bucket, start, run, role)
);
CALL protect('history');

CREATE TABLE promotions (           -- requests to promote an engram to org or global
    request_id  text COLLATE "C" NOT NULL,
    engram      text COLLATE "C" NOT NULL,
    asked       bytea NOT NULL,  -- the fact, as JSON
    asked_at    bigint NOT NULL,
    answered    bytea,  -- the fact of the answer; NULL while it waits
    answered_at bigint,
    rowid       bigint GENERATED ALWAYS AS IDENTITY,  -- the order in which they were made
    project     integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, request_id)
);
CALL protect('promotions');
CREATE INDEX promotions_waiting ON promotions (project, engram) WHERE answered IS NULL;

CREATE TABLE gate_overrides (       -- findings of the merge gate that somebody let pass
    position    bigint NOT NULL DEFAULT next_position('gate_overrides'),
    fingerprint text COLLATE "C" NOT NULL,
    body        bytea NOT NULL,  -- the fact, as JSON
    made_at     bigint NOT NULL,
    project     integer NOT NULL DEFAULT current_project(),
    PRIMARY KEY (project, position)
);
CALL protect('gate_overrides');
CREATE INDEX gate_overrides_of ON gate_overrides (project, fingerprint);
