-- As 0003 does for tables of work: without statistics of its number, a project is taken for one of many. With them, the
-- planner takes one that was begun since for an empty one, and reads all of it where it should ask an index.
DO $$
DECLARE
    one_table text;
BEGIN
    FOR one_table IN
        SELECT table_name FROM information_schema.columns
        WHERE table_schema = current_schema() AND column_name = 'project' AND table_name NOT LIKE 'work\_%'
            AND table_name <> 'projects'
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN project SET STATISTICS 0', one_table);
    END LOOP;
END
$$;
