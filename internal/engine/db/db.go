package db

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// FileName is the name of the database within the data directory.
const FileName = "lilac.db"

const (
	// queueSize bounds the updates that wait for the writer. Callers beyond it wait
	// in Update, where their context can still end the wait.
	queueSize = 1024
	// groupMax bounds one commit, so that the first update of a group does not wait
	// for updates that arrived long after it.
	groupMax = 256
	// committedMax bounds the committed groups whose callers the notifier has not
	// released yet.
	committedMax = 4
	// minReaders keeps short reads going while a long read runs.
	minReaders = 4
)

// Options configure [Open]. All fields but Dir are optional.
type Options struct {
	// Dir is the data directory; it is created with mode 0700.
	Dir string
	// URL is the address of a PostgreSQL database (postgres://user:password@host/name).
	// If it is empty, the database is a SQLite file in Dir.
	URL string
	// Logger receives errors that no caller receives. The default discards them.
	Logger *slog.Logger
	// Migrations are applied in order, each once.
	Migrations []Migration
	// SkipMigrations leaves the tables as they are. Commands that only read set it, so
	// that the version that wrote the database can still open it afterwards.
	// [DB.PendingMigrations] lists what was skipped.
	SkipMigrations bool
	// Lease makes this process the owner of a database on PostgreSQL. Without one, Open takes
	// the ownership from any other process. The lease has locked the directory. The caller
	// releases it after Close.
	Lease *Lease
	// ReadOnly opens a database on PostgreSQL beside the process that owns it: Update fails,
	// the directory is not locked, and the tables stay as they are.
	ReadOnly bool
	// Moving opens a database although its data is being moved, or was moved.
	Moving bool
	// Synchronous replaces FULL. Only tests set it: they turn the sync off to show
	// that they would notice.
	Synchronous string
	// Now is the clock of transactions; default [time.Now].
	Now func() time.Time
	// OnCommit is called around every commit, first with false and then with true.
	// Crash tests end the process there.
	OnCommit func(done bool)
	// OnRead is called before every read. Tests pause there.
	OnRead func()
	// OnRoundTrip is called for every round trip to a database server, to count them, with the
	// statements that travel.
	OnRoundTrip func(statements []string)
	// OnPlan is called with the plan of each statement that SQLite keeps prepared, to find those
	// that read whole tables.
	OnPlan func(statement string, steps []string)
	// OnPublish is called with the events that a transaction publishes, to count
	// them. The transaction may still be rolled back.
	OnPublish func(events []event.Event)
}

// Publisher writes events into a transaction.
type Publisher func(tx *Tx, events []event.Event) error

// DB is an open database with one writer and a pool of readers.
type DB struct {
	opt     Options
	storeID string
	pending []string
	lock    dirLock
	engine  engine

	reads chan *read
	queue chan *update
	// hurry ends the wait for updates that join lazy ones; one signal is enough.
	hurry chan struct{}
	// committed carries groups from the writer to the notifier; notifying counts
	// those that the notifier has not finished.
	committed  chan []*update
	notifying  atomic.Int32
	goroutines sync.WaitGroup
	// callers counts the calls in progress, so that Close waits for them.
	callers sync.WaitGroup

	// unresolved is the group whose commit has an unknown outcome, and logged the last failure
	// of a commit that was logged; owned by the writer.
	unresolved []*update
	logged     string
	loggedAt   time.Time

	// full is the error of the last write that found the disk full, until the probe could write much.
	full atomic.Pointer[error]

	closeOnce sync.Once
	closeErr  error

	mu         sync.Mutex
	closed     bool
	publisher  Publisher
	commitErr  error // of the last commit
	lastCommit time.Time
}

// Open locks a data directory for this process and opens or creates its database.
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
	if opt.OnRead == nil {
		opt.OnRead = func() {}
	}
	if opt.OnPublish == nil {
		opt.OnPublish = func([]event.Event) {}
	}
	if opt.Synchronous == "" {
		opt.Synchronous = "FULL"
	}
	opt.SkipMigrations = opt.SkipMigrations || opt.ReadOnly
	var lock dirLock
	if !opt.ReadOnly && opt.Lease == nil {
		if err := makeDir(opt.Dir); err != nil {
			return nil, err
		}
		var err error
		if lock, err = lockDir(opt.Dir); err != nil {
			return nil, err
		}
	}
	d := &DB{
		opt: opt, lock: lock,
		reads:     make(chan *read),
		queue:     make(chan *update, queueSize),
		hurry:     make(chan struct{}, 1),
		committed: make(chan []*update, committedMax),
	}
	readers := max(minReaders, runtime.NumCPU())
	open := d.openSQLite
	if opt.URL != "" {
		open = d.openPostgres
	}
	if err := open(ctx, readers); err != nil {
		return nil, errors.Join(err, d.release())
	}
	if err := checkMoves(ctx, d); err != nil {
		return nil, errors.Join(err, d.release())
	}
	d.goroutines.Add(2 + readers)
	go d.runWriter()
	go d.runNotifier()
	for range readers {
		go d.runReader(nil) // opens its connection for its first read: starts stay quick
	}
	return d, nil
}

// PendingMigrations lists the migrations that [Options.SkipMigrations] skipped. If
// there are any, the database may have no [DB.StoreID].
func (d *DB) PendingMigrations() []string { return d.pending }

// StoreID identifies this database for its lifetime. An engine outside it, such as
// Redis, compares the id to detect that it holds the data of another database.
func (d *DB) StoreID() string { return d.storeID }

// Dir returns the data directory.
func (d *DB) Dir() string { return d.opt.Dir }

// SetPublisher sets the function that [Tx.Publish] calls. The bus calls it before
// anything publishes.
func (d *DB) SetPublisher(p Publisher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.publisher = p
}

// Healthy returns the error of the last commit, or nil if it succeeded. A full disk that refuses
// large writes is an error although small ones succeed.
func (d *DB) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed()
	}
	if full := d.full.Load(); full != nil && d.commitErr == nil {
		return *full
	}
	return d.commitErr
}

// probeWeight is the size of the probe's row after a write has found the disk full: what a large
// prompt takes.
const probeWeight = 1 << 20

// Probe checks that the writer works: its files are where the next start looks for
// them, and it has committed within the last idle, or else commits a row now. Small rows may
// still fit into a full disk, so that row is large once a write has found the disk full.
func (d *DB) Probe(ctx context.Context, idle time.Duration) error {
	if err := d.engine.checkLocation(); err != nil {
		return err
	}
	full := d.full.Load()
	d.mu.Lock()
	err, last := d.commitErr, d.lastCommit
	d.mu.Unlock()
	if err == nil && full == nil && d.opt.Now().Sub(last).Abs() < idle {
		return nil
	}
	var ballast []byte
	if full != nil {
		ballast = make([]byte, probeWeight)
		_, _ = rand.Read(ballast) // random, because PostgreSQL compresses; it never fails
	}
	err = d.UpdateRelaxed(ctx, func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO meta (name, value) VALUES ('probed', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
			tx.Now().UTC().Format(time.RFC3339Nano)+base64.StdEncoding.EncodeToString(ballast))
		return err
	})
	if err == nil {
		d.full.CompareAndSwap(full, nil) // a newer one stays
	}
	return err
}

// Verify reads the whole database and lists the faults in its structure. The owners
// of rows with checksums verify those themselves.
func (d *DB) Verify(ctx context.Context) (bad []string, err error) {
	err = d.Read(ctx, func(q Queryer) (err error) { bad, err = d.engine.integrityErrors(q); return err })
	if err != nil && fault.KindOf(err) == fault.Internal {
		return append(bad, err.Error()), nil
	}
	return bad, err
}

// Close rejects new calls, lets the accepted ones finish, and unlocks the directory.
// Further calls return the result of the first one.
func (d *DB) Close() error {
	d.closeOnce.Do(func() {
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
		d.callers.Wait()
		close(d.queue)
		close(d.reads)
		d.goroutines.Wait()
		d.closeErr = d.release()
	})
	return d.closeErr
}

// enter counts a call, so that Close waits for it.
func (d *DB) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed()
	}
	d.callers.Add(1)
	return nil
}

// release closes the engine and unlocks the directory.
func (d *DB) release() error {
	var err error
	if d.engine != nil {
		err = d.engine.close()
	}
	if err := errors.Join(err, d.lock.release()); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

func errClosed() error {
	return &fault.Error{Kind: fault.Unavailable, Code: "closed", Message: "The database is closed."}
}

// newStoreID is called once in the lifetime of a database.
func newStoreID() string { return ulid.Make().String() }
