package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// postgresConn is one connection with its prepared statements. It collects statements and
// sends them with the next one whose result is needed, because round trips decide how
// fast it is: BEGIN never costs one.
type postgresConn struct {
	// dial opens a connection in place of one that was lost.
	dial func(ctx context.Context) (*pgconn.PgConn, error)
	// beginning is the statement that begins a read.
	beginning string
	// timeout is how long the server may take to answer.
	timeout time.Duration
	// onSend is called for every round trip, with its statements; tests count them.
	onSend func(statements []string)

	server *pgconn.PgConn // nil until the first use, and after a loss
	stmts  map[string]*postgresStatement
	names  int
	queue  []*postgresCall
	rows   *postgresRows // the result that is still being read
	ahead  []*keptRead   // the announced reads of the transaction
	// behind has the reads that are sent behind the next COMMIT, carried those that were sent
	// behind the last one for the transaction that follows.
	behind, carried []*keptRead
	carriedAt       time.Time
	// tables has the names of the tables in statements; see tablesIn.
	tables map[string][]string
	// open is true from BEGIN to the end of the transaction, answered if the server has
	// answered a statement of it.
	open, answered bool
	// begun is true if the server has answered BEGIN.
	begun bool
	// wrote is true if the transaction may have changed something, plain if it has a plainInsert.
	wrote, plain bool
	// failed is the error that ended the transaction.
	failed error
	// ending is the end of a read whose answer nobody waits for.
	ending *pgconn.Pipeline
}

// postgresStatement is a statement that the server knows by name, or that it is about to
// prepare.
type postgresStatement struct {
	name, sql string
	types     []uint32
	described *pgconn.StatementDescription
}

// postgresCall is a statement that waits to be sent, or was sent. It is also its Result.
type postgresCall struct {
	conn       *postgresConn
	query      string
	parameters []parameter
	statement  *postgresStatement // set when it is sent
	affected   int64
	done       bool
	err        error
	// keep is the announced read that the call answers, or nil.
	keep *keptRead
	// behind is true for a read that is sent behind a COMMIT.
	behind bool
	// failedItself is false if an error of an earlier statement prevented this one.
	failedItself bool
}

// RowsAffected sends the statement if that has not happened yet.
func (c *postgresCall) RowsAffected() (int64, error) {
	if !c.done {
		if err := c.conn.flush(); err != nil && c.err == nil {
			c.err = err
		}
	}
	return c.affected, c.err
}

// enqueue adds a statement to the queue.
func (c *postgresConn) enqueue(query string, args []any) (*postgresCall, error) {
	call := &postgresCall{conn: c, query: query}
	if len(args) > 0 {
		call.parameters = make([]parameter, len(args))
	}
	for i, arg := range args {
		p, err := encodeParameter(arg)
		if err != nil {
			return nil, err
		}
		call.parameters[i] = p
	}
	c.queue = append(c.queue, call)
	return call, nil
}

// statement returns the prepared statement of a query. The types of its numbers are
// those of its first arguments: the server would take a number that is compared with a
// literal for a small one.
func (c *postgresConn) statement(query string, parameters []parameter) *postgresStatement {
	if st, ok := c.stmts[query]; ok {
		return st
	}
	st := &postgresStatement{sql: postgresText(query), types: make([]uint32, len(parameters))}
	for i, p := range parameters {
		st.types[i] = p.oid
	}
	if c.stmts == nil {
		c.stmts = make(map[string]*postgresStatement)
	}
	if len(c.stmts) < statementsMax {
		c.names++
		st.name = "s" + strconv.Itoa(c.names)
		c.stmts[query] = st
	}
	return st
}

func (c *postgresConn) exec(_ context.Context, query string, args ...any) (Result, error) {
	if isRollback(query) && c.server != nil {
		c.failed = nil // the server accepts statements again
	}
	if c.failed != nil && c.open {
		return nil, c.failed
	}
	call, err := c.enqueue(query, args)
	if err != nil {
		return nil, err
	}
	c.wrote = true
	c.forgetReads(query)
	if !c.open || isSavepoint(query) {
		if err := c.flush(); err != nil {
			return nil, err
		}
	}
	return call, nil
}

// isSavepoint reports whether errors of the statements before a statement must be
// returned now: they belong to the closure that ends.
func isSavepoint(query string) bool {
	return query == "RELEASE SAVEPOINT one" || isRollback(query)
}

func isRollback(query string) bool {
	return query == "ROLLBACK TO SAVEPOINT one" || query == "ROLLBACK"
}

func (c *postgresConn) query(ctx context.Context, query string, args ...any) (Rows, error) {
	rows, err := c.read(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (c *postgresConn) read(ctx context.Context, query string, args []any) (*postgresRows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.failed != nil && c.open {
		return nil, c.failed
	}
	if !strings.HasPrefix(query, "SELECT") {
		c.wrote = true
		c.forgetReads(query)
	} else if rows, err := c.readAhead(query, args); rows != nil || err != nil {
		return rows, err
	}
	if _, err := c.enqueue(query, args); err != nil {
		return nil, err
	}
	return c.send(true)
}

func (c *postgresConn) queryRow(ctx context.Context, query string, args ...any) Row {
	rows, err := c.read(ctx, query, args)
	if err != nil {
		return failedRow{err}
	}
	row := &postgresRow{found: rows.Next()}
	if row.found {
		row.values = rows.values
	}
	row.err = rows.Close()
	return row
}

func (c *postgresConn) script(ctx context.Context, statements string) error {
	if err := c.flush(); err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	c.sent(&postgresCall{query: statements})
	if err := c.server.Exec(ctx, statements).Close(); err != nil {
		return c.note(err)
	}
	return nil
}

func (c *postgresConn) flush() error {
	if len(c.queue) > 0 {
		if _, err := c.send(false); err != nil {
			return err
		}
	}
	if c.open {
		return c.failed
	}
	return nil
}

func (c *postgresConn) beginRead(ctx context.Context) error {
	c.start()
	_, err := c.enqueue(c.beginning, nil)
	return err
}

// start begins a transaction that the next round trip will open.
func (c *postgresConn) start() {
	c.queue, c.open, c.begun, c.wrote, c.plain, c.failed, c.behind = nil, true, false, false, false, nil, nil
	c.ahead = c.takeCarried()
	c.answered = len(c.ahead) > 0 // on another connection, the reads may have other results
}

// endRead sends the end of the transaction, and does not wait for the answer.
func (c *postgresConn) endRead() error {
	defer func() { c.queue, c.open, c.failed, c.ahead = nil, false, nil, nil }()
	if c.rows != nil {
		_ = c.rows.Close() // its closure has failed to do it
	}
	if !c.begun || c.server == nil {
		return nil
	}
	c.extendDeadline()
	p := c.server.StartPipeline(context.Background())
	p.SendQueryParams("ROLLBACK", nil, nil, nil, nil)
	if err := p.Sync(); err != nil {
		c.lose() // the next read opens another connection
		return nil
	}
	c.ending = p
	return nil
}

// connect opens a connection if there is none. Within a transaction that the server has
// begun, it fails: what was lost cannot be continued.
func (c *postgresConn) connect(ctx context.Context) error {
	if c.ending != nil {
		c.extendDeadline()
		if err := c.ending.Close(); err != nil {
			c.lose()
		}
		c.ending = nil
	}
	if c.server != nil && !c.server.IsClosed() {
		return nil
	}
	c.lose()
	if c.open && c.answered {
		c.failed = &lostError{errors.New("the connection was lost")}
		return c.failed
	}
	server, err := c.dial(ctx)
	if err != nil {
		return &lostError{err}
	}
	c.server = server
	return nil
}

// lose closes a connection that does not work.
func (c *postgresConn) lose() {
	if c.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = c.server.Close(ctx) // it is of no use any more
	}
	c.server, c.stmts, c.rows, c.ending, c.begun, c.carried = nil, nil, nil, nil, false, nil
}

// note records an error: either the server rejected a statement, which ends the
// transaction, or the connection does not work.
func (c *postgresConn) note(err error) error {
	if lost(err) {
		c.lose()
		err = &lostError{err}
	}
	if pgCode(err) == codeReadOnly {
		c.lose() // the next connection may lead to the primary
	}
	if c.open {
		c.failed = err
	}
	return err
}

// send sends the queue in one round trip. With wantRows, it returns the rows of the last
// statement. If the connection turns out to be lost and no statement of the transaction
// was answered before, it sends the queue once more on another connection.
func (c *postgresConn) send(wantRows bool) (*postgresRows, error) {
	if c.rows != nil {
		if err := c.rows.spill(); err != nil {
			c.queue = c.queue[:0]
			return nil, err
		}
	}
	calls := c.queue
	c.queue = nil
	fresh := c.server == nil
	rows, err := c.sendOnce(calls, wantRows)
	if err != nil && isLost(err) && !fresh && c.repeatable(calls) {
		c.failed = nil
		rows, err = c.sendOnce(calls, wantRows)
	}
	if err == nil {
		c.answered = c.open
	}
	return rows, err
}

// repeatable reports whether statements were lost with a transaction that had no effect.
func (c *postgresConn) repeatable(calls []*postgresCall) bool {
	return c.open && !c.answered && !slices.ContainsFunc(calls, func(call *postgresCall) bool { return call.query == "COMMIT" })
}

func (c *postgresConn) sendOnce(calls []*postgresCall, wantRows bool) (*postgresRows, error) {
	if err := c.connect(context.Background()); err != nil {
		return nil, c.note(err)
	}
	c.sent(calls...)
	p := c.server.StartPipeline(context.Background())
	prepared := make(map[*postgresStatement]bool)
	for _, call := range calls {
		call.statement = c.statement(call.query, call.parameters)
		send(p, call, prepared)
	}
	if err := p.Sync(); err != nil {
		return nil, c.note(err)
	}
	for i, call := range calls {
		rows, err := c.receive(p, call, prepared, wantRows && i == len(calls)-1)
		if err != nil {
			_ = p.Close() // reads the rest; the first error counts
			if call.behind {
				if lost(err) {
					c.lose()
				}
				return nil, nil // the commit has happened; the reads will run again
			}
			err = c.note(err)
			call.failedItself = true
			for _, failed := range calls[i:] {
				failed.done, failed.err = true, err
			}
			return nil, err
		}
		c.begun = c.open
		if rows != nil {
			c.rows = rows
			return rows, nil
		}
	}
	if err := p.Close(); err != nil {
		return nil, c.note(err)
	}
	return nil, nil
}

// sent counts a round trip and gives the server its time to answer.
func (c *postgresConn) sent(calls ...*postgresCall) {
	if c.onSend != nil {
		statements := make([]string, len(calls))
		for i, call := range calls {
			statements[i] = call.query
		}
		c.onSend(statements)
	}
	c.extendDeadline()
}

func (c *postgresConn) extendDeadline() {
	_ = c.server.Conn().SetDeadline(time.Now().Add(c.timeout)) // fails only if it is closed
}

var binaryResults = []int16{1}

func send(p *pgconn.Pipeline, call *postgresCall, prepared map[*postgresStatement]bool) {
	values, formats := make([][]byte, len(call.parameters)), make([]int16, len(call.parameters))
	for i, one := range call.parameters {
		values[i], formats[i] = one.value, one.format
	}
	switch st := call.statement; {
	case st.name == "":
		p.SendQueryParams(st.sql, values, st.types, formats, binaryResults)
	case st.described != nil:
		p.SendQueryStatement(st.described, values, formats, binaryResults)
	default:
		if _, sent := prepared[st]; !sent {
			prepared[st] = false
			p.SendPrepare(st.name, st.sql, st.types)
		}
		p.SendQueryPrepared(st.name, values, formats, binaryResults)
	}
}

// receive reads the answer to a statement.
func (c *postgresConn) receive(p *pgconn.Pipeline, call *postgresCall, prepared map[*postgresStatement]bool, wantRows bool) (*postgresRows, error) {
	if answered, sent := prepared[call.statement]; sent && !answered {
		prepared[call.statement] = true
		result, err := p.GetResults()
		if err != nil {
			return nil, err
		}
		description, ok := result.(*pgconn.StatementDescription)
		if !ok {
			return nil, fmt.Errorf("the server answered with %T to a statement to prepare", result)
		}
		description.Name = call.statement.name
		call.statement.described = description
	}
	result, err := p.GetResults()
	if err != nil {
		return nil, err
	}
	reader, ok := result.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("the server answered with %T to a statement", result)
	}
	if wantRows {
		return newRows(c, p, reader), nil
	}
	if call.keep != nil {
		if err := call.keep.read(newRows(c, p, reader)); err != nil {
			return nil, err
		}
	}
	tag, err := reader.Close()
	if err != nil {
		return nil, err
	}
	call.affected, call.done = tag.RowsAffected(), true
	if call.query == "COMMIT" && tag.String() != "COMMIT" {
		return nil, fmt.Errorf("the server answered %s to COMMIT", tag)
	}
	return nil, nil
}

func (c *postgresConn) close() error {
	if c.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	server := c.server
	c.server = nil
	return server.Close(ctx)
}
