package db

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// dialWriter opens the connection of the writer. After a loss, it begins a new epoch: it
// waits until the transaction of the lost connection has ended, and rejects what the
// server may still receive from it.
func (e *postgresEngine) dialWriter(ctx context.Context) (*pgconn.PgConn, error) {
	if err := e.endedBy(); err != nil {
		return nil, err
	}
	server, err := e.dial(ctx)
	if err != nil || !e.owned {
		return server, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	// The answer to an earlier attempt may be lost, and the server may carry it out only now:
	// the row says whether it is still this process's, and the highest attempt counts.
	e.proposed = max(e.proposed, e.epoch) + 1
	epoch := strconv.FormatInt(e.proposed, 10)
	if err := e.claim(ctx, server, epoch, "node = $1 AND epoch < "+epoch); err != nil {
		return nil, errors.Join(err, server.Close(ctx))
	}
	return server, nil
}

// claim begins an epoch, an expression, if the row of writers meets a condition. The lock on the row of the
// lease (owner) makes a process wait that takes over at this moment: its epoch is then the
// higher one.
func (e *postgresEngine) claim(ctx context.Context, server *pgconn.PgConn, epoch, condition string) error {
	result := server.ExecParams(ctx, "WITH owner AS MATERIALIZED (SELECT 1 FROM leases WHERE name = 'writer' AND holder = $1 FOR SHARE) UPDATE writers SET epoch = "+epoch+", claimed = "+epoch+", node = $1 WHERE w = 0 AND "+condition+" RETURNING epoch, last",
		[][]byte{[]byte(e.node)}, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) == 0 {
		return e.replaced(&fault.Error{Kind: fault.Unavailable, Code: CodeTakenOver, Message: messageAnotherProcess})
	}
	begun, err := strconv.ParseInt(string(result.Rows[0][0]), 10, 64)
	if err != nil {
		return fmt.Errorf("read epoch: %w", err)
	}
	stored, err := strconv.ParseInt(string(result.Rows[0][1]), 10, 64)
	if err != nil {
		return fmt.Errorf("read the number of the last commit: %w", err)
	}
	if e.owned && stored < e.last && stored >= e.durable {
		return e.startAgain(e.last - stored)
	}
	if e.owned && stored < e.last {
		return e.end(&fault.Error{Kind: fault.Unavailable, Code: "database_rolled_back", Message: fmt.Sprintf(
			"PostgreSQL has lost %s that it had confirmed, probably because an asynchronous standby was promoted. Nothing more is written. Restart Lilac to continue with what is left.", text.Count(e.last-stored, "commit"))})
	}
	if !e.owned {
		e.last, e.durable = stored, stored
	}
	e.epoch, e.stored, e.owned = begun, stored, true
	return nil
}

// startAgain ends the ownership after PostgreSQL has crashed or failed over and has lost commits
// that did not wait for the disk. Nobody relies on them, but what is in memory here does not
// match the tables any more. The owner of the lease begins again from the tables.
func (e *postgresEngine) startAgain(lost int64) error {
	err := &fault.Error{Kind: fault.Unavailable, Code: "database_restarting", Message: fmt.Sprintf(
		"PostgreSQL has crashed, and has lost %s that did not wait for the disk. Lilac starts again from what is stored; nothing that it accepted is lost.", text.Count(lost, "commit"))}
	return e.replaced(err)
}

// replaced ends the ownership because another process has begun an epoch. A lease that this
// process still has would keep everyone from the database.
func (e *postgresEngine) replaced(err error) error {
	if e.lease != nil {
		e.lease.lose(err)
	}
	return e.end(err)
}

// end records that nothing may be written any more.
func (e *postgresEngine) end(reason error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended == nil {
		e.ended = reason
	}
	return e.ended
}

func (e *postgresEngine) endedBy() error {
	if e.lease != nil {
		if err := e.lease.Err(); err != nil {
			return e.end(err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}
