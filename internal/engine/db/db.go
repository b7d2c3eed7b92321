package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// FileName is the name of the database within the data directory.
const FileName = "lilac.db"

const (
	// queueSize bounds what waits for the writer; callers beyond it wait in
	// Update, where their context can still end the wait.
	queueSize = 1024
	// groupMax bounds one commit, so that the first of a group is not kept
	// waiting by work that arrived long after it.
	groupMax = 256
	// finishedMax is how many committed groups may wait for their callbacks
	// while the next one syncs.
	finishedMax = 4
	// minReaders keeps short reads going while one long read runs.
	minReaders = 4
	// checkpointPages moves the log into the database every 16 MB: seldom
	// enough not to slow writing, often enough that a start stays quick.
	checkpointPages = 4000
	// writerCacheKiB holds the pages that a thousand live outputs write to; the
	// default of 2 MB reads them back from the log again and again.
	writerCacheKiB = 8000
)

// Options say what to open. The zero value of all but Dir works.
type Options struct {
	// Dir is the data directory; it is created with mode 0700.
	Dir string
	// Logger gets what nobody is there to be told; default: nowhere.
	Logger *slog.Logger
	// Migrations are applied in order; each once.
	Migrations []Migration
	// AsItIs applies none: who only looks must not keep the program that wrote the
	// database from opening it. [DB.Due] tells which there are.
	AsItIs bool
	// Synchronous replaces FULL. Only tests set it: they switch the sync off
	// to show that they would notice.
	Synchronous string
	// Now is the clock of transactions; default [time.Now].
	Now func() time.Time
	// OnCommit, when set, is called around every commit, first with false and
	// after it with true. Crash tests end the process there.
	OnCommit func(done bool)
	// OnPublish, when set, is called with what a transaction publishes, to
	// count it; the transaction may still be rolled back.
	OnPublish func(events []event.Event)
}

// Publisher writes events into a transaction; the engine of the bus installs it.
type Publisher func(tx *Tx, events []event.Event) error

// DB is an open database with its one writer and its pool of readers.
type DB struct {
	opt     Options
	path    string
	storeID string
	due     []string
	lock    dirLock
	places  []placed

	writeDB *sql.DB
	readDB  *sql.DB
	writer  *session
	reads   chan *read

	queue    chan *request
	finished chan []*request
	// unfinished counts the groups that finish has not told yet.
	unfinished atomic.Int32
	done       sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	entering  sync.WaitGroup
	publisher Publisher
	lastErr   error
	committed time.Time // when the last commit was done

	relaxed bool // the writer's current synchronous mode; used by the writer only
	closing sync.Once
	stopErr error
}

// Open opens or creates the database of a data directory and takes the
// directory for this process.
func Open(ctx context.Context, opt Options) (*DB, error) {
	if opt.Dir == "" {
		return nil, fault.New(fault.Invalid, "a data directory is needed")
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.OnCommit == nil {
		opt.OnCommit = func(bool) {}
	}
	if opt.OnPublish == nil {
		opt.OnPublish = func([]event.Event) {}
	}
	if opt.Synchronous == "" {
		opt.Synchronous = "FULL"
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		what := ""
		if errors.Is(err, fs.ErrPermission) {
			what = fmt.Sprintf(" as user %d: change the owner of the directory around it", os.Geteuid())
		}
		return nil, fault.Wrap(fault.Invalid, err, "The data directory %s cannot be made%s; choose another one with --data", opt.Dir, what)
	}
	lock, err := lockDir(opt.Dir)
	if err != nil {
		return nil, err
	}
	d := &DB{
		opt: opt, path: filepath.Join(opt.Dir, FileName), lock: lock,
		reads:    make(chan *read),
		queue:    make(chan *request, queueSize),
		finished: make(chan []*request, finishedMax),
	}
	readers := max(minReaders, runtime.NumCPU())
	if err := d.open(ctx, readers); err != nil {
		return nil, errors.Join(err, d.release())
	}
	d.done.Add(2)
	go d.write()
	go d.finish()
	for range readers {
		d.done.Add(1)
		// Connections are opened when they are first needed: a start is quick.
		go d.serveReads(newSession(nil))
	}
	return d, nil
}

func (d *DB) open(ctx context.Context, readers int) error {
	applied, err := inspect(ctx, d.path, d.opt.Migrations)
	if err != nil {
		return err
	}
	for _, m := range d.opt.Migrations {
		if d.opt.AsItIs && !applied[m.Name] {
			d.due = append(d.due, m.Name)
		}
	}
	// FULL syncs the log at every commit, which is what "accepted" means.
	// The busy timeout covers a checkpoint by another connection of ours. What
	// can be undone within a transaction stays in memory: in a file, it is
	// created and removed for each transaction of some size.
	d.writeDB = openPool(d.path, 1,
		"_txlock=immediate", "_pragma=busy_timeout(5000)", "_pragma=journal_mode(WAL)",
		"_pragma=synchronous("+d.opt.Synchronous+")", "_pragma=foreign_keys(1)",
		"_pragma=temp_store(MEMORY)", fmt.Sprintf("_pragma=cache_size(-%d)", writerCacheKiB),
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", checkpointPages),
		"_pragma=journal_size_limit(67108864)")
	conn, err := d.writeDB.Conn(ctx)
	if err != nil {
		return damagedFile(d.path, err)
	}
	d.writer = newSession(conn)
	if err := os.Chmod(d.path, 0o600); err != nil {
		return fmt.Errorf("protect database: %w", err)
	}
	if len(d.due) == 0 {
		err = d.migrate()
	} else {
		err = d.beginLog(ctx, conn)
	}
	if err != nil {
		return err
	}
	if err := d.keepPlaces(); err != nil {
		return err
	}
	d.readDB = openPool(d.path, readers, "mode=ro", "_pragma=busy_timeout(5000)", "_pragma=query_only(1)")
	return nil
}

// beginLog has SQLite make the log, which a copy such as a restored one comes without
// until it is first read or written.
func (d *DB) beginLog(ctx context.Context, conn *sql.Conn) error {
	var tables int64
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return damagedFile(d.path, err)
	}
	return nil
}

func openPool(path string, size int, params ...string) *sql.DB {
	pool, err := sql.Open("sqlite", dsn(path, params...))
	if err != nil {
		panic("the driver sqlite is linked in: " + err.Error())
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool
}

// Due are the migrations that [Options.AsItIs] left out; without them the database
// has no [DB.StoreID] to tell.
func (d *DB) Due() []string { return d.due }

// StoreID names this database for ever; an engine outside of it uses the id to
// notice that it is talking to another store.
func (d *DB) StoreID() string { return d.storeID }

// Dir is the data directory.
func (d *DB) Dir() string { return d.opt.Dir }

// SetPublisher installs what [Tx.Publish] calls. The engine of the bus calls it
// before anything publishes.
func (d *DB) SetPublisher(p Publisher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.publisher = p
}

// Healthy returns why the last commit failed, or nil if it did not.
func (d *DB) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed()
	}
	return d.lastErr
}

// Probe shows that the writer works: from its files, which have to be where a start
// looks for them, and from a commit within the last idle, else by a write of its
// own. It returns when that is on its way to the disk, or says why it cannot be.
func (d *DB) Probe(ctx context.Context, idle time.Duration) error {
	if err := d.inPlace(); err != nil {
		return err
	}
	d.mu.Lock()
	err, committed := d.lastErr, d.committed
	d.mu.Unlock()
	if err == nil && d.opt.Now().Sub(committed).Abs() < idle {
		return nil
	}
	return d.UpdateRelaxed(ctx, func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO meta (name, value) VALUES ('probed', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1", tx.Now().UTC().Format(time.RFC3339Nano))
		return err
	})
}

// Verify reads the whole database and reports what is damaged in its
// structure. Owners of rows with checksums verify those themselves.
func (d *DB) Verify(ctx context.Context) (bad []string, err error) {
	err = d.Read(ctx, func(q Queryer) error {
		rows, err := q.Query("PRAGMA integrity_check(100)")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return err
			}
			if line != "ok" {
				bad = append(bad, line)
			}
		}
		return rows.Err()
	})
	if err != nil && fault.KindOf(err) == fault.Internal {
		return append(bad, err.Error()), nil
	}
	return bad, err
}

// Close lets what was accepted finish, refuses what comes later, and gives the
// directory back. It may be called twice.
func (d *DB) Close() error {
	d.closing.Do(func() {
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
		d.entering.Wait()
		close(d.queue)
		close(d.reads)
		d.done.Wait()
		d.stopErr = d.release()
	})
	return d.stopErr
}

func (d *DB) release() error {
	var errs []error
	if d.readDB != nil {
		errs = append(errs, d.readDB.Close())
	}
	if d.writer != nil {
		errs = append(errs, d.writer.close())
	}
	if d.writeDB != nil {
		errs = append(errs, d.writeDB.Close())
	}
	errs = append(errs, d.lock.release())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

func errClosed() error {
	return &fault.Error{Kind: fault.Unavailable, Code: "closed", Message: "The database is closed."}
}

// newStoreID is called once in the life of a database.
func newStoreID() string { return ulid.Make().String() }
