package delivery

import (
	"context"
	"errors"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/text"
)

// admission moves events from the log into the window of a group.
type admission struct{ *group }

// intake admits events after the cursor while a handler is free. The backlog stays
// in the log, because an admitted event costs a row. intake reads the log at most
// once, so that a long search for wanted types does not delay finished handlers.
func (a admission) intake(p *plan, arrived []*Record, now int64) error {
	for _, r := range arrived {
		if a.head >= 0 {
			a.head = max(a.head, r.Seq)
		}
	}
	if len(a.buffer)+len(arrived) > arrivedMax {
		a.buffer = nil // the log has the records
	} else {
		a.buffer = append(a.buffer, arrived...)
	}
	for asked := false; a.canAdmit(); {
		if r := a.nextBuffered(); r != nil {
			a.admit(p, r, now)
			continue
		}
		if asked {
			return nil
		}
		asked = true
		if err := a.readMore(p); err != nil {
			return err
		}
	}
	return nil
}

// nextBuffered returns the event after the cursor if it is in memory.
func (a admission) nextBuffered() (r *Record) {
	if len(a.ahead) > 0 {
		r, a.ahead = a.ahead[0], a.ahead[1:]
		return r
	}
	for len(a.buffer) > 0 && a.buffer[0].Seq <= a.cursor {
		a.buffer = a.buffer[1:]
	}
	if len(a.buffer) > 0 && a.buffer[0].Seq == a.cursor+1 {
		r, a.buffer = a.buffer[0], a.buffer[1:]
	}
	return r
}

// readMore reads the next chunk of the log after the cursor.
func (a admission) readMore(p *plan) error {
	info, chunk, err := a.b.events.Read(context.Background(), a.name.topic, a.cursor, "", chunkRows)
	var damage error
	if db.IsDamaged(err) {
		damage, err = err, nil
	}
	if err != nil {
		return fmt.Errorf("read ahead: %w", err)
	}
	if a.cursor < info.Trimmed {
		if n := a.b.events.Distance(a.cursor, info.Trimmed); n > 0 {
			a.b.log.Warn("events were trimmed before a group read them", "topic", a.name.topic, "group", a.name.name, "events", n)
		}
		a.cursor = info.Trimmed
	}
	a.head = max(a.head, info.Last)
	a.ahead = chunk
	switch {
	case len(chunk) > 0:
		a.head = max(a.head, chunk[len(chunk)-1].Seq)
	case damage != nil:
		a.admitDamaged(p, damage)
	default:
		a.head = info.Last // fed events may be ahead of a log that is being restored
	}
	return nil
}

func (a admission) admit(p *plan, r *Record, now int64) {
	a.cursor = r.Seq
	if !a.wanted(r.Type) {
		return
	}
	e := &entry{seq: r.Seq}
	if a.memory < inMemory {
		e.rec = r
		a.memory += r.size()
	}
	a.entries[r.Seq] = e
	a.lanes.add(e, r.Lane)
	if !a.acceptClaim(e) {
		p.insert = append(p.insert, e)
	}
	a.schedule(e.lane, now)
}

// admitDamaged moves a damaged row to the dead letters, so that one flipped bit does
// not stop the group. The row itself stays in the log.
func (a admission) admitDamaged(p *plan, damage error) {
	a.cursor++
	var at *Damaged
	if errors.As(damage, &at) {
		a.cursor = at.Seq
	}
	a.b.log.Error("damaged event moved to the dead letters", "topic", a.name.topic, "group", a.name.name, "position", a.cursor, "error", damage)
	e := &entry{seq: a.cursor, reason: text.Truncate(damage.Error(), reasonMax), rec: a.placeholder(a.cursor), lane: &lane{}}
	p.insert = append(p.insert, e)
	p.deadLetters = append(p.deadLetters, e)
}
