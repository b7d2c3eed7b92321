package store_test

import (
	"testing"
	"time"

	"lilac/internal/core/mark"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

func TestMarksArePendingUntilThePlatformHasThem(t *testing.T) {
	d, s := open(t)
	of := func(id string, wanted, shown bool) mark.Mark {
		return mark.Mark{Ref: event.MessageRef{Platform: "discord", ChannelID: "1", MessageID: id}, Emoji: "x", Wanted: wanted, Shown: shown, Since: 5}
	}
	pending := func() (ids string) {
		t.Helper()
		if err := d.Read(t.Context(), func(q db.Queryer) error {
			list, err := s.Marks.PendingMarks(q, "discord", 10)
			for _, m := range list {
				ids += m.Ref.MessageID
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	update(t, d, func(tx *db.Tx) error {
		for _, m := range []mark.Mark{of("1", true, false), of("2", true, true), of("3", false, true)} {
			if err := s.Marks.SaveMark(tx, m.Key(), m); err != nil {
				return err
			}
		}
		return nil
	})
	if got := pending(); got != "13" {
		t.Errorf("pending: %q", got)
	}
	// A damaged mark stops nothing: it counts as none, and is replaced.
	update(t, d, func(tx *db.Tx) error {
		if _, err := tx.Exec(`UPDATE marks SET checksum = checksum + 1 WHERE key = ?`, of("1", true, false).Key()); err != nil {
			return err
		}
		m, err := s.Marks.Mark(tx, of("1", true, false).Key())
		if err != nil || !m.Empty() {
			t.Errorf("a damaged mark: %+v, %v", m, err)
		}
		return nil
	})
	if got := pending(); got != "3" {
		t.Errorf("beside a damaged one are pending: %q", got)
	}
	update(t, d, func(tx *db.Tx) error { return s.Marks.SaveMark(tx, of("3", false, true).Key(), mark.Mark{}) })
	if got := pending(); got != "" {
		t.Errorf("after the removal are pending: %q", got)
	}
	update(t, d, func(tx *db.Tx) error {
		_, err := s.Marks.TrimMarks(tx, time.UnixMilli(6))
		return err
	})
	if err := d.Read(t.Context(), func(q db.Queryer) error {
		m, err := s.Marks.Mark(q, of("2", true, true).Key())
		if !m.Empty() {
			t.Errorf("an old mark is kept: %+v", m)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
