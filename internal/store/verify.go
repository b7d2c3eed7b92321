package store

import (
	"context"
	"fmt"

	"lilac/internal/engine/db"
)

// maxReported bounds the damaged rows that are reported per table.
const maxReported = 1000

// Verify reads every row that carries a checksum and lists the damaged ones. It changes
// nothing.
func (s *Store) Verify(ctx context.Context) (bad []string, err error) {
	for _, t := range checksummedTables {
		sound := matches
		if t.sum != nil {
			sound = func(checksum int64, values []any) bool { return t.sum(values...) == checksum }
		}
		err := s.db.Read(ctx, func(q db.Queryer) error {
			found := 0
			return t.each(q, "", func(values []any, checksum int64) (bool, error) {
				if !sound(checksum, values) {
					bad = append(bad, t.damaged(values).Error())
					found++
				}
				return found < maxReported, ctx.Err()
			})
		})
		if err != nil {
			return bad, fmt.Errorf("verify %s: %w", t.table, err)
		}
	}
	return bad, nil
}
