package session

import (
	"context"

	"lilac/internal/agent"
	"lilac/internal/core/kernel"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// change is one transaction on a session: the loaded state, the facts about the
// input, and the rows that effects share. It belongs to one goroutine and is not
// used after its transaction.
type change struct {
	svc   *Service
	state State

	// eventID and traceParent are those of the command in progress; mail is its
	// message.
	eventID     string
	traceParent string
	mail        *Mail
	// run is the run that writes, or nil, and started the one that the change starts.
	run, started *run
	// outcome, cause and quiet describe the end that the run asks for. A quiet end
	// shows no message on a platform.
	outcome *agent.Outcome
	cause   string
	quiet   bool
	// text is the output of the request textOf so far; without it, the journal is
	// read.
	text, textOf string
	// finalOutput is the last output event of the request that ends.
	finalOutput *event.FinalText

	// injected are the messages that effects applied, seqs their sequence numbers
	// in the history.
	injected []agent.Injected
	seqs     []int64
	// granted are the restrictions of the applied messages.
	granted grant.Grant

	rowCache // with the tables, the transaction and the session
}

func (s *Service) newChange(tx *db.Tx, sessionID string) *change {
	return &change{svc: s, rowCache: rowCache{tables: &s.opt.Tables, tx: tx, sessionID: sessionID}}
}

// change loads a session's state and calls fn in one transaction. If the
// transaction is retried, fn is called again with a new change.
func (s *Service) change(ctx context.Context, sessionID string, fn func(c *change) error) error {
	return s.changeIn(ctx, s.opt.DB.Update, sessionID, fn)
}

// changeIn is like change, in a transaction of one of the kinds of [db.DB].
func (s *Service) changeIn(ctx context.Context, update updating, sessionID string, fn func(c *change) error) error {
	return update(ctx, func(tx *db.Tx) error {
		state, err := s.opt.Tables.States.State(tx, sessionID)
		if err != nil {
			return err
		}
		c := s.newChange(tx, sessionID)
		c.state = state
		if err := fn(c); err != nil {
			return err
		}
		if c.started != nil && len(c.seqs) > 0 && c.seqs[len(c.seqs)-1] <= foreseenMessages {
			c.started.opening = tx.Foresee(func(tx *db.Tx) { c.started.ahead(tx) })
		}
		return c.writeRequests()
	})
}

// foreseenMessages is the length of the longest conversation that is read with the commit that
// starts a run. Reading a longer one would delay the commits of others.
const foreseenMessages = 50

// newCore connects the decider to the tables. Its key is the change, which names
// the session and carries the facts of its transaction.
func (s *Service) newCore() kernel.Core[*change, State, Input, Effect] {
	return kernel.Core[*change, State, Input, Effect]{
		Load:   func(tx *db.Tx, c *change) (State, error) { return s.opt.Tables.States.State(tx, c.sessionID) },
		Decide: Decide,
		Save: func(tx *db.Tx, c *change, _, after State) error {
			c.state = after
			return s.opt.Tables.States.SaveState(tx, c.sessionID, after)
		},
		Carry: func(_ *db.Tx, c *change, _ State, e Effect) error { return c.carryOut(e) },
		Wake: func(c *change, before, after State) {
			if before.OpenPause() != nil && after.OpenPause() == nil {
				s.alarms.stop(c.sessionID)
			}
			if after.Active == nil && len(after.Queue) > 0 {
				s.holdSession(c.sessionID)
			}
		},
	}
}

// decide makes the decision of this change.
func (c *change) decide(in Input) error {
	rows, err := c.damagedQueue()
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		in = DamagedQueue{Rows: rows, Next: in}
	}
	_, _, err = c.svc.core.ApplyTo(c.tx, c, c.state, in)
	return err
}

// damagedQueue returns the requests at the front of the queue whose rows are
// corrupt: they could not start.
func (c *change) damagedQueue() (rows []RowDamaged, err error) {
	for _, w := range c.state.Queue {
		_, err := c.request(w.RequestID)
		if db.IsEngineError(err) {
			return nil, err
		}
		if !db.IsDamaged(err) {
			break
		}
		wire := fault.ToWire(err)
		rows = append(rows, RowDamaged{RequestID: w.RequestID, Detail: wire.Message, Kind: wire.Kind})
	}
	return rows, nil
}

func (c *change) now() int64 { return c.tx.Now().UnixMilli() }

func (c *change) publish(id string, headers event.Headers, p event.Payload) error {
	ev, err := event.New(event.Meta{ID: id, Time: c.tx.Now(), Headers: headers}, p)
	if err != nil {
		return err
	}
	return c.tx.Publish(ev)
}
