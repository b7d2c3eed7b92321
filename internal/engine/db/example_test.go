package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"lilac/internal/engine/db"
)

var notes = db.Migration{Name: "notes.0001", SQL: "CREATE TABLE notes (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT"}

func Example() {
	dir, _ := os.MkdirTemp("", "lilac")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{Dir: dir, Migrations: []db.Migration{notes}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()

	// Update returns when the row is on disk.
	err = d.Update(ctx, func(tx *db.Tx) error {
		tx.AfterCommit(func() { fmt.Println("committed") })
		_, err := tx.Exec("INSERT INTO notes (id, text) VALUES (?, ?)", "1", "hello")
		return err
	})
	if err != nil {
		fmt.Println(err)
	}

	// Read sees one snapshot and does not wait for the writer.
	err = d.Read(ctx, func(q db.Queryer) error {
		var text string
		if err := q.QueryRow("SELECT text FROM notes WHERE id = ?", "1").Scan(&text); err != nil {
			return err
		}
		fmt.Println(text)
		return q.QueryRow("SELECT text FROM notes WHERE id = ?", "2").Scan(&text)
	})
	fmt.Println(errors.Is(err, db.ErrNoRows))
	// Output:
	// committed
	// hello
	// true
}
