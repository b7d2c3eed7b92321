package sqlitebus_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
)

// Environment variables of a child, in addition to those that all engines use.
const (
	childSync = "LILAC_TEST_SYNC"
	childFrom = "LILAC_TEST_FROM"
	childMost = "LILAC_TEST_MOST"
)

func openChild(ctx context.Context, dir string) (bus.Bus, error) {
	database, err := db.Open(ctx, dbtest.Options(db.Options{Dir: dir, Migrations: sqlitebus.Migrations, Synchronous: os.Getenv(childSync)}))
	if err != nil {
		return nil, err
	}
	return sqlitebus.New(database, sqlitebus.Options{})
}

// childPublish publishes forever with eight publishers, and prints each id once it is
// acknowledged.
func childPublish(b bus.Bus) error {
	from, _ := strconv.Atoi(os.Getenv(childFrom))
	most, _ := strconv.Atoi(os.Getenv(childMost))
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := 0; most == 0 || i < most; i++ {
				id := fmt.Sprintf("e-%d-%d-%d", from, w, i)
				if err := b.Publish(context.Background(), bustest.Event(bustest.Topic, id, "l")); err != nil {
					return
				}
				os.Stdout.WriteString(id + "\n")
			}
		})
	}
	all.Wait()
	return nil
}
