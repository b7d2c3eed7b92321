package e2e

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"lilac/internal/engine/db"
)

// databaseAnswers bounds one statement of a test.
const databaseAnswers = 30 * time.Second

// Exec changes the database without the program's knowledge. Controls use it to remove data whose
// loss the test must notice.
func (s *Server) Exec(statement string) {
	s.t.Helper()
	s.ask(statement, "")
}

// Count runs a query that counts rows.
func (s *Server) Count(query string) int {
	s.t.Helper()
	rows := s.Rows(query)
	if len(rows) != 1 || len(rows[0]) != 1 {
		s.t.Fatalf("%s returned %v", query, rows)
	}
	n, err := strconv.Atoi(rows[0][0])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Rows runs a query and returns its rows as strings.
func (s *Server) Rows(query string) [][]string {
	s.t.Helper()
	return s.ask(query, "mode=ro&")
}

// ask runs a statement on the database of the program, whose directory SQLite opens with a mode.
func (s *Server) ask(statement, mode string) (all [][]string) {
	s.t.Helper()
	var err error
	if url := s.postgres(); url != "" {
		all, err = askPostgres(url, statement)
	} else {
		all, err = askSQLite(s.database(mode+"_pragma=busy_timeout(10000)"), statement)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
	return all
}

// postgres returns the address of the database on PostgreSQL, or "".
func (s *Server) postgres() (url string) {
	for _, setting := range s.Env {
		if value, ok := strings.CutPrefix(setting, "LILAC_DB_URL="); ok {
			url = value
		}
	}
	return url
}

// database returns the URI of the database file. It escapes the path.
func (s *Server) database(options string) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.Join(s.Dir, "data", db.FileName)}).EscapedPath(), RawQuery: options}).String()
}

func askSQLite(file, statement string) (all [][]string, err error) {
	database, err := sql.Open("sqlite", file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	rows, err := database.Query(statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		columns, err := rows.Columns()
		row := make([]string, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := errors.Join(err, rows.Scan(into...)); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// forPostgres translates what the statements of tests use of SQLite.
var forPostgres = strings.NewReplacer("CAST(json AS TEXT)", "convert_from(json, 'UTF8')",
	"json_extract(usage, '$.inputTokens')", "CAST(usage ->> '$.inputTokens' AS BIGINT)")

func askPostgres(url, statement string) (all [][]string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), databaseAnswers)
	defer cancel()
	c, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	results, err := c.Exec(ctx, forPostgres.Replace(statement)).ReadAll()
	for _, r := range results {
		for _, row := range r.Rows {
			var out []string
			for _, value := range row {
				out = append(out, string(value))
			}
			all = append(all, out)
		}
	}
	return all, err
}
