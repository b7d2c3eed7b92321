package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/oklog/ulid/v2"

	"lilac/internal/foundation/fault"
)

const (
	// answerWithin is how long PostgreSQL may take to answer one round trip. Long enough
	// for a checkpoint on a slow disk; a connection that is silent longer is given up.
	answerWithin = 60 * time.Second
	// connectWithin is how long a connection may take, unless the URL says otherwise.
	connectWithin = 5 * time.Second
	closeTimeout  = time.Second
	// resolveWithin is how long callers wait to hear the outcome of a commit whose
	// connection was lost.
	resolveWithin = 30 * time.Second
	resolvePause  = 200 * time.Millisecond
	// idleInTransaction is how long a transaction may wait for its next statement. It
	// bounds how long the locks of a stopped process block the next owner.
	idleInTransaction = 5 * time.Second
	// postgresMin is the oldest supported version: older ones get no fixes any more.
	postgresMin = 14
)

// postgresTables creates the tables of this package. A group commit changes the row of
// writers: the row shows afterwards whether the commit happened, and its constraint
// rejects the commit of a process whose epoch is over. The functions have the names and
// results of functions of SQLite, so that a query is written once.
const postgresTables = `
CREATE TABLE IF NOT EXISTS meta (name TEXT COLLATE "C" PRIMARY KEY, value TEXT COLLATE "C" NOT NULL);
CREATE TABLE IF NOT EXISTS migrations (name TEXT COLLATE "C" PRIMARY KEY, applied_at BIGINT NOT NULL);
INSERT INTO meta (name, value) VALUES ('application', 'lilac') ON CONFLICT (name) DO NOTHING;
` + postgresSequences

// postgresSequences moves sequences behind the rows: logical replication, with which providers upgrade and
// move databases, copies rows and leaves the sequences at their beginning.
const postgresSequences = `
DO $$ DECLARE c record; BEGIN
	FOR c IN SELECT table_name t, column_name n, pg_get_serial_sequence(table_name, column_name) s
		FROM information_schema.columns WHERE is_identity = 'YES' AND table_schema = current_schema()
	LOOP
		EXECUTE format('SELECT setval(%L, m) FROM (SELECT max(%I) m FROM %I) x, %s WHERE m >= last_value', c.s, c.n, c.t, c.s);
	END LOOP;
END $$;
`

const postgresOwnership = `
SELECT pg_advisory_xact_lock(7808536571553542753); -- two processes that start at once
CREATE TABLE IF NOT EXISTS writers (
	w       BIGINT PRIMARY KEY,
	node    TEXT COLLATE "C" NOT NULL,
	epoch   BIGINT NOT NULL, -- counts the owners
	claimed BIGINT NOT NULL, -- the epoch of the last commit
	last    BIGINT NOT NULL, -- the number of the last commit
	CONSTRAINT writers_epoch CHECK (claimed = epoch)
);
INSERT INTO writers (w, node, epoch, claimed, last) VALUES (0, '', 0, 0, 0) ON CONFLICT (w) DO NOTHING;
CREATE TABLE IF NOT EXISTS leases (name TEXT COLLATE "C" PRIMARY KEY, holder TEXT COLLATE "C" NOT NULL, locked TEXT COLLATE "C" NOT NULL, until TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (name TEXT COLLATE "C" PRIMARY KEY, addr TEXT COLLATE "C" NOT NULL, version TEXT COLLATE "C" NOT NULL, since BIGINT NOT NULL, seen BIGINT NOT NULL);
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS url TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS cpus BIGINT NOT NULL DEFAULT 1;
INSERT INTO leases (name, holder, locked, until) VALUES ('writer', '', '', now()) ON CONFLICT (name) DO NOTHING;
CREATE OR REPLACE FUNCTION json_each(list text) RETURNS TABLE (value text) LANGUAGE sql IMMUTABLE STRICT
	AS 'SELECT e.v COLLATE "C" FROM json_array_elements_text(list::json) AS e (v)';
CREATE OR REPLACE FUNCTION lilac_lower(t text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
	AS 'SELECT lower(t COLLATE "und-x-icu")';
CREATE OR REPLACE FUNCTION lilac_json_text(data bytea, path text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
	RETURN (convert_from(data, 'UTF8')::json #>> string_to_array(substr(path, 3), '.')) COLLATE "C";
EXCEPTION WHEN OTHERS THEN
	RETURN NULL;
END $$;
DO $$ BEGIN
	IF to_regoperator('->> (bytea, text)') IS NULL THEN
		CREATE OPERATOR ->> (LEFTARG = bytea, RIGHTARG = text, FUNCTION = lilac_json_text);
	END IF;
END $$;
CREATE OR REPLACE FUNCTION lilac_expect(affected bigint, want bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	IF affected <> want THEN
		RAISE EXCEPTION 'a statement changed % rows, not %', affected, want USING ERRCODE = 'LX001';
	END IF;
	RETURN affected;
END $$;
CREATE OR REPLACE FUNCTION unixepoch() RETURNS bigint LANGUAGE sql STABLE
	AS 'SELECT CAST(floor(extract(epoch FROM now())) AS bigint)';
`

// postgresEngine is a database on a PostgreSQL server.
type postgresEngine struct {
	url string
	// settings are the parameters of its connections that the URL does not have.
	settings map[string]string
	// readOnly accepts a standby, too.
	readOnly bool
	node     string
	onSend   func(statements []string)
	write    *postgresConn

	// These belong to the writer goroutine. epoch is the number of this ownership, last
	// the number of the last commit that is known to have happened, and stored that of
	// the database when it was last asked. owned is false until the first claim.
	epoch, last, stored int64
	owned               bool
	// proposed is the highest epoch that this process has tried to begin after the first one.
	proposed int64
	// durable is the number of the last commit that is known to have waited for the disk, and
	// for the synchronous standby. relaxed is true if the current transaction does not wait.
	durable int64
	relaxed bool
	// lease ends the ownership when it is lost; nil if the process has none.
	lease *Lease
	// unknown is the number of a commit whose outcome is not known, or 0.
	unknown int64

	mu sync.Mutex
	// ended is why nothing may be written any more.
	ended error
}

// openPostgres inspects, opens, and migrates the database.
func (d *DB) openPostgres(ctx context.Context, _ int) error {
	e := &postgresEngine{url: d.opt.URL, node: nodeName(), onSend: d.opt.OnRoundTrip, lease: d.opt.Lease, readOnly: d.opt.ReadOnly}
	if e.lease != nil {
		e.node = e.lease.holder
	}
	e.write = e.newConn(e.dialWriter)
	d.engine = e
	applied, err := e.inspect(ctx, d.opt.Migrations)
	if err != nil {
		return postgresFault(err)
	}
	d.notePending(applied)
	if d.opt.ReadOnly {
		return d.openReadOnly(ctx, e, applied)
	}
	if err := e.write.script(ctx, postgresOwnership); err != nil {
		return postgresFault(fmt.Errorf("create the table of writers: %w", err))
	}
	condition := "true"
	if e.lease != nil {
		condition = "(SELECT count(*) FROM owner) = 1"
	}
	if err := e.claim(ctx, e.write.server, "epoch + 1", condition); err != nil {
		return postgresFault(fmt.Errorf("claim the database: %w", err))
	}
	if len(d.pending) > 0 {
		return nil
	}
	if err := d.migrate(postgresTables); err != nil {
		return postgresFault(err)
	}
	return nil
}

// nodeName identifies this process for the whole life of the database.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), ulid.Make())
}

// majorVersion returns the version of the server, or 0 if it does not say.
func majorVersion(server *pgconn.PgConn) int {
	major, err := strconv.Atoi(digits(server.ParameterStatus("server_version")))
	if err != nil {
		return 0
	}
	return major
}

// checkPooler refuses a pooler that gives a connection to another client after each transaction,
// because the parameters of the connection would be lost. Such a pooler gives two clients the same
// connection.
func (e *postgresEngine) checkPooler(ctx context.Context) (err error) {
	if err := e.write.connect(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_ = e.write.server.Conn().SetDeadline(time.Time{}) // the context ends it
	other, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close(ctx)) }()
	first, err := backend(ctx, e.write.server)
	if err != nil {
		return err
	}
	second, err := backend(ctx, other)
	if err != nil || first != second {
		return err
	}
	return &fault.Error{Kind: fault.Conflict, Code: "database_pooler", Message: "The pooler in front of PostgreSQL gives a connection to another client after each transaction. " +
		"Let it keep one for each session (PgBouncer: pool_mode = session), or point LILAC_DB_URL at PostgreSQL itself."}
}

// backend identifies the process of PostgreSQL behind a connection.
func backend(ctx context.Context, server *pgconn.PgConn) (string, error) {
	result := server.ExecParams(ctx, "SELECT pg_backend_pid()", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return "", fmt.Errorf("identify the process of PostgreSQL: %w", result.Err)
	}
	return fmt.Sprintf("%s", result.Rows), nil
}

func (e *postgresEngine) newConn(dial func(context.Context) (*pgconn.PgConn, error)) *postgresConn {
	return &postgresConn{dial: dial, timeout: answerWithin, onSend: e.onSend, beginning: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}
}

// dial opens a connection and checks that the server can be used.
func (e *postgresEngine) dial(ctx context.Context) (*pgconn.PgConn, error) {
	// Read again, because certificates and the password in a file are replaced while Lilac runs.
	config, err := postgresConfig(e.url, e.settings, e.readOnly)
	if err != nil {
		return nil, err
	}
	server, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := checkServer(server); err != nil {
		return nil, errors.Join(err, server.Close(ctx))
	}
	return server, nil
}

func checkServer(server *pgconn.PgConn) error {
	if major := majorVersion(server); major > 0 && major < postgresMin {
		return &fault.Error{Kind: fault.Conflict, Code: "database_version", Message: fmt.Sprintf(
			"PostgreSQL %s is too old: Lilac needs version %d or later.", server.ParameterStatus("server_version"), postgresMin)}
	}
	if encoding := server.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return &fault.Error{Kind: fault.Conflict, Code: "database_encoding", Message: fmt.Sprintf(
			"The database has the encoding %s. Create one with the encoding UTF8.", encoding)}
	}
	return nil
}

// digits returns the leading digits of a text, as in "17beta1".
func digits(s string) string {
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	return s[:end]
}

// openReadOnly reads the identity of a database without becoming its owner.
func (d *DB) openReadOnly(ctx context.Context, e *postgresEngine, applied map[string]bool) error {
	_ = e.end(&fault.Error{Kind: fault.Unavailable, Code: "read_only", Message: "The database was opened for reading only."})
	if len(applied) == 0 {
		return fault.New(fault.NotFound, "The database is empty: the first start creates its tables.")
	}
	err := (reader{ctx, e.write}).QueryRow("SELECT value FROM meta WHERE name = 'store_id'").Scan(&d.storeID)
	if err != nil {
		return postgresFault(fmt.Errorf("read store id: %w", err))
	}
	return nil
}

// inspect returns the migrations that were applied, or why this version cannot use the
// database. It changes nothing.
func (e *postgresEngine) inspect(ctx context.Context, known []Migration) (map[string]bool, error) {
	if e.lease == nil { // otherwise, the lease has checked it
		if err := e.checkPooler(ctx); err != nil {
			return nil, err
		}
	}
	q := reader{ctx, e.write}
	var tables, own int
	if err := q.QueryRow("SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r'").Scan(&tables); err != nil {
		return nil, err
	}
	if tables == 0 {
		return nil, nil
	}
	foreign := &fault.Error{Kind: fault.Conflict, Code: "foreign_database", Message: "The database has tables of another program. It was not changed. Create a database of its own for Lilac, or a schema, and choose it with ?search_path=NAME."}
	if err := q.QueryRow("SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relname IN ('meta', 'migrations')").Scan(&own); err != nil {
		return nil, err
	}
	if own != 2 {
		if own == 0 { // killed between its first two transactions, or another process is at its start
			var ownership int
			err := q.QueryRow("SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r' AND relname IN ('writers', 'leases', 'nodes')").Scan(&ownership)
			if err != nil || ownership == tables {
				return nil, err
			}
		}
		return nil, foreign
	}
	var application int
	if err := q.QueryRow("SELECT count(*) FROM meta WHERE name = 'application' AND value = 'lilac'").Scan(&application); err != nil {
		return nil, err
	}
	if application == 0 {
		return nil, foreign
	}
	return appliedIn(q, known)
}

func appliedIn(q Queryer, known []Migration) (map[string]bool, error) {
	names, applied := map[string]bool{}, map[string]bool{}
	for _, m := range known {
		names[m.Name] = true
	}
	rows, err := q.Query("SELECT name FROM migrations")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if !names[name] {
			return nil, newerFault("on PostgreSQL", "the change "+name)
		}
		applied[name] = true
	}
	return applied, rows.Err()
}

func (e *postgresEngine) writer() conn { return e.write }

func (e *postgresEngine) openReader(context.Context) (conn, error) { return e.newConn(e.dial), nil }

func (e *postgresEngine) begin(relaxed bool) error {
	if err := e.endedBy(); err != nil {
		return err
	}
	e.write.start()
	e.relaxed = relaxed
	_, err := e.write.enqueue("BEGIN", nil)
	if err == nil && relaxed {
		_, err = e.write.enqueue("SET LOCAL synchronous_commit = off", nil)
	}
	return err
}

func (e *postgresEngine) commit() error {
	c := e.write
	if c.failed != nil { // a closure has ignored it
		return fmt.Errorf("%w: %w", errStatement, c.failed)
	}
	if !c.wrote {
		return c.endRead()
	}
	if err := c.connect(context.Background()); err != nil { // a new connection begins an epoch
		return c.note(err) // not sent
	}
	number := e.last + 1
	if _, err := c.enqueue("UPDATE writers SET last = ?, claimed = ? WHERE w = 0", []any{number, e.epoch}); err != nil {
		return err
	}
	commit, err := c.enqueue("COMMIT", nil)
	if err != nil {
		return err
	}
	c.enqueueBehind()
	_, err = c.send(false)
	switch {
	case err == nil:
		e.confirm(number)
		c.open = false
		c.carry()
		return nil
	case isLost(err):
		c.open = false
		e.unknown = number
		return e.await(err)
	case isFenced(err):
		return e.replaced(postgresFault(err))
	case commit.failedItself:
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("%w: %w", errStatement, err)
}

// confirm records a commit that has happened.
func (e *postgresEngine) confirm(number int64) {
	e.last = number
	if !e.relaxed {
		e.durable = number // and every one before it
	}
}

// await finds out what became of a commit. It returns the cause if the commit did not
// happen, so that the transaction can be repeated.
func (e *postgresEngine) await(cause error) error {
	for end := time.Now().Add(resolveWithin); ; time.Sleep(resolvePause) {
		committed, err := e.outcome()
		switch {
		case err == nil && committed:
			return nil
		case err == nil:
			return cause
		case time.Now().After(end), e.endedBy() != nil:
			return fmt.Errorf("%w: %w", errOutcomeUnknown, err)
		}
	}
}

func (e *postgresEngine) outcome() (committed bool, err error) {
	e.write.open = false
	e.write.lose() // the next connection claims, which tells the number
	if err := e.write.connect(context.Background()); err != nil {
		return false, err
	}
	committed = e.stored >= e.unknown
	if committed {
		e.confirm(e.stored)
	}
	e.unknown = 0
	return committed, nil
}

func (e *postgresEngine) rollback() {
	c := e.write
	_ = c.endRead() // an error has closed the connection, and the transaction with it
}

func (e *postgresEngine) checkLocation() error { return e.endedBy() }

// integrityErrors has nothing to read: PostgreSQL verifies its pages with its own
// checksums, and amcheck verifies its indexes.
func (e *postgresEngine) integrityErrors(q Queryer) ([]string, error) {
	var one int
	return nil, q.QueryRow("SELECT 1").Scan(&one)
}

func (e *postgresEngine) migrating(m Migration) string {
	if m.Postgres != "" {
		return m.Postgres
	}
	return toPostgresSchema(m.SQL)
}

func (e *postgresEngine) classify(err error) error { return postgresFault(err) }

// transient reports whether a connection was lost that worked before, a transaction failed
// only because of another one, or a statement did not affect as many rows as expected.
func (e *postgresEngine) transient(err error) bool {
	if err == nil || e.endedBy() != nil || errors.Is(err, errOutcomeUnknown) {
		return false
	}
	code := pgCode(err)
	var connect *pgconn.ConnectError
	unexpected := code == codeUnexpected || code == codeUnique && e.write.plain
	return isLost(err) && !errors.As(err, &connect) || code == codeSerialization || code == codeDeadlock || unexpected
}

func (e *postgresEngine) close() error { return e.write.close() }
