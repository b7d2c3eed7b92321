package db

import (
	"context"
	"errors"
	"fmt"

	"lilac/internal/foundation/fault"
)

// ServerInfo describes a PostgreSQL server and its database.
type ServerInfo struct {
	// Version is that of the server.
	Version string
	// Empty is true before the first start of Lilac.
	Empty bool
	// Owner names the process that owns the database now: its host and its process ID. It is
	// empty if there is none.
	Owner string
	// Standbys is the number of synchronous standbys. Without one, a promoted standby may
	// lack the last commits.
	Standbys int
}

// connectionsNeeded is the number of connections of one process, beside those of its readers:
// the writer, the lease, and one for doctor.
const connectionsNeeded = minReaders + 3

// ExamineServer connects to a PostgreSQL server and checks whether a start could use the
// database: version, encoding, rights, connections, and whether it accepts writes. It changes
// nothing, and another process may own the database. The error says what to do.
func ExamineServer(ctx context.Context, url string, known []Migration) (info ServerInfo, err error) {
	e := &postgresEngine{url: url}
	e.write = e.newConn(e.dial)
	defer func() { err = errors.Join(err, e.close()) }()
	applied, err := e.inspect(ctx, known)
	if err != nil {
		return info, postgresFault(err)
	}
	info.Empty = len(applied) == 0
	info.Version = e.write.server.ParameterStatus("server_version")
	if err := e.examine(reader{ctx, e.write}, &info); err != nil {
		return info, postgresFault(err)
	}
	return info, nil
}

func (e *postgresEngine) examine(q Queryer, info *ServerInfo) error {
	var readOnly, mayCreate, foreign, limit, leases int
	err := q.QueryRow(`SELECT CASE WHEN pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' THEN 1 ELSE 0 END,
		CASE WHEN current_schema() IS NOT NULL AND has_schema_privilege(current_schema(), 'CREATE') THEN 1 ELSE 0 END,
		(SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r' AND NOT pg_has_role(relowner, 'USAGE')),
		(SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
		(SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relname = 'leases'),
		(SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))`).Scan(&readOnly, &mayCreate, &foreign, &limit, &leases, &info.Standbys)
	if err != nil {
		return err
	}
	unavailable := func(code, message string) error {
		return &fault.Error{Kind: fault.Unavailable, Code: code, Message: message}
	}
	switch {
	case readOnly != 0:
		return unavailable("database_read_only", messageReadOnly)
	case mayCreate == 0:
		return unavailable("database_rights", "The user of the database may not create tables in its schema, or there is none. Grant it USAGE and CREATE on the schema.")
	case foreign > 0:
		return unavailable("database_rights", fmt.Sprintf("The user of the database does not own %d of its tables. Change their owner with ALTER TABLE … OWNER TO, or use the user that owns them.", foreign))
	case limit >= 0 && limit < connectionsNeeded:
		return unavailable("database_connections", fmt.Sprintf("The user of the database may have %d connections, and Lilac needs %d. Raise its CONNECTION LIMIT with ALTER ROLE.", limit, connectionsNeeded))
	}
	if leases == 0 {
		return nil
	}
	return q.QueryRow("SELECT CASE WHEN until > now() THEN holder ELSE '' END FROM leases WHERE name = 'writer'").Scan(&info.Owner)
}
