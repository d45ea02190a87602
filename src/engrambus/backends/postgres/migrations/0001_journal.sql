-- Projects and their journals. Every table begins with the number of the project, which the transaction sets
-- (`engrambus.project`); row-level security shows no other project's rows, to the tables' owner neither (decision 122).

CREATE FUNCTION current_project() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT nullif(current_setting('engrambus.project', true), '')::integer $$;

-- Shows the rows of a table only to transactions of their project.
CREATE PROCEDURE protect(table_name text) LANGUAGE plpgsql
AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY one_project ON %I USING (project = current_project())', table_name);
END
$$;

CREATE TABLE projects (
    project     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id  text COLLATE "C" NOT NULL UNIQUE
);

-- One line is one commit, in the format of a journal on disk: core/journal/format.py. Line 0 is the header.
CREATE TABLE journal (
    project     integer NOT NULL DEFAULT current_project(),
    kind        text COLLATE "C" NOT NULL,   -- memory: what the team knows; tuples: its work
    seq         bigint NOT NULL,
    line        bytea NOT NULL,
    PRIMARY KEY (project, kind, seq)
);
CALL protect('journal');
