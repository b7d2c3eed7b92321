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
		sum := t.sum
		if sum == nil {
			sum = rowChecksum
		}
		err := s.db.Read(ctx, func(q db.Queryer) error {
			found := 0
			return t.each(q, "", func(values []any, checksum int64) (bool, error) {
				if sum(values...) != checksum {
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
