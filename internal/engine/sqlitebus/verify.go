package sqlitebus

import (
	"context"
	"errors"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
)

// Verify reads every row that has a checksum and reports damaged or missing ones by
// name. It changes nothing.
func (b *Bus) Verify(ctx context.Context) (bad []string, err error) {
	var topics []event.Topic
	err = b.db.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query("SELECT name FROM bus_topics ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name event.Topic
			if err := rows.Scan(&name); err != nil {
				return err
			}
			topics = append(topics, name)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("verify topics: %w", err)
	}
	for _, t := range topics {
		found, err := b.verifyTopic(ctx, t)
		bad = append(bad, found...)
		if err != nil {
			return bad, fmt.Errorf("verify %s: %w", t, err)
		}
	}
	stray, err := b.verifyStray(ctx)
	return append(bad, stray...), err
}

// badMax is the maximum number of reports per topic.
const badMax = 1000

// verifyTopic reads a topic chunk by chunk and skips damaged rows.
func (b *Bus) verifyTopic(ctx context.Context, topic event.Topic) (bad []string, err error) {
	at := int64(-1)
	for {
		var over bool
		err := b.db.Read(ctx, func(q db.Queryer) error {
			info, err := findTopic(q, topic)
			if err != nil {
				return err
			}
			at = max(at, info.trimmed)
			if at >= info.last || info.id == 0 {
				over = true
				return nil
			}
			records, err := readLog(q, topic, info.id, at, "", chunkRows)
			at += int64(len(records))
			if db.IsDamaged(err) {
				bad = append(bad, err.Error())
				at++
				if gap := (*delivery.Damaged)(nil); errors.As(err, &gap) {
					at = max(at, gap.Seq)
				}
				over = len(bad) >= badMax
				return nil
			}
			return err
		})
		if err != nil || over {
			return bad, err
		}
	}
}

// verifyStray finds rows that belong to no topic, and verifies the dead letters.
func (b *Bus) verifyStray(ctx context.Context) (bad []string, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query(fmt.Sprintf(`SELECT pos FROM bus_log l WHERE l.topic <> l.pos >> %d
			OR NOT EXISTS (SELECT 1 FROM bus_topics t WHERE t.id = l.topic) LIMIT 100`, seqBits))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var pos int64
			if err := rows.Scan(&pos); err != nil {
				return err
			}
			bad = append(bad, db.DamagedRow("bus_log", fmt.Sprintf("%d (of no topic)", pos)).Error())
		}
		if err := rows.Err(); err != nil {
			return err
		}
		letters, err := delivery.VerifyDeadLetters(q)
		bad = append(bad, letters...)
		return err
	})
	if err != nil {
		return bad, fmt.Errorf("verify rows: %w", err)
	}
	return bad, nil
}
