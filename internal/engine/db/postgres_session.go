package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"lilac/internal/foundation/fault"
)

// atStart lists the parameters that poolers accept when a connection begins (PgBouncer's
// documentation, ignore_startup_parameters), and those that can be set only then.
var atStart = map[string]bool{
	"application_name": true, "client_encoding": true, "datestyle": true, "standard_conforming_strings": true, "timezone": true,
	"options": true, "replication": true,
}

// ofLibpq lists parameters of libpq that would be sent to the server, which does not know them, and for
// which there is nothing to do here: connections that don't answer are given up after answerWithin. Each
// has the value that cannot be ignored, or "".
var ofLibpq = map[string]string{
	"fallback_application_name": "", "gssencmode": "require", "keepalives": "", "keepalives_count": "", "keepalives_idle": "", "keepalives_interval": "",
	"load_balance_hosts": "", "sslcompression": "", "tcp_user_timeout": "",
}

// whyUnusable returns the reason for which a URL cannot be used, without the URL and its password.
func whyUnusable(err error) string {
	text := err.Error()
	behind := strings.LastIndex(text, "`: ") // the URL is quoted in front of it
	if behind < 0 || errors.As(err, new(*url.Error)) {
		return "it is not the address of a PostgreSQL database, which looks like postgres://user:password@host/name"
	}
	reason := text[behind+len("`: "):]
	if strings.HasSuffix(reason, "failed to parse private key)") {
		reason += "; if it is encrypted, convert it: openssl pkey -traditional -aes256"
	}
	return reason
}

// postgresConfig reads the URL. The settings are used unless the URL has others. The error does not
// contain the password. With readOnly, a standby is accepted.
func postgresConfig(address string, settings map[string]string, readOnly bool) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil, fault.New(fault.Invalid, "LILAC_DB_URL cannot be used: %s.", whyUnusable(err))
	}
	maps.DeleteFunc(config.RuntimeParams, func(name, value string) bool {
		needed, known := ofLibpq[name]
		return known && value != needed
	})
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectWithin
	}
	all := map[string]string{
		"application_name": "lilac", "client_encoding": "UTF8",
		"idle_in_transaction_session_timeout": strconv.FormatInt(idleInTransaction.Milliseconds(), 10),
	}
	maps.Copy(all, settings)
	maps.Copy(all, config.RuntimeParams)
	config.RuntimeParams = map[string]string{}
	later := map[string]string{}
	for name, value := range all {
		if atStart[strings.ToLower(name)] {
			config.RuntimeParams[name] = value
		} else {
			later[name] = value
		}
	}
	accepts := config.ValidateConnect // that of target_session_attrs, or nil
	// It is called for each host of the URL, until one is accepted.
	config.ValidateConnect = func(ctx context.Context, server *pgconn.PgConn) error {
		if err := configure(ctx, server, later, readOnly); err != nil || accepts == nil {
			return err
		}
		return accepts(ctx, server)
	}
	return config, nil
}

// noLimit has parameters with which a provider limits what its users do, each with the version of
// PostgreSQL that has it first. They would end a migration, a wait for a lock, or the connection of
// the lease; a server that does not answer is given up after answerWithin.
var noLimit = map[string]int{"statement_timeout": 0, "lock_timeout": 0, "idle_session_timeout": 14, "transaction_timeout": 17}

// configure sets parameters for the rest of a connection, and refuses a standby unless readOnly: a proxy
// that does not know yet who the primary is leads there, and would keep the connection for good. What is
// read there may be old.
func configure(ctx context.Context, server *pgconn.PgConn, parameters map[string]string, readOnly bool) error {
	query := "SELECT pg_is_in_recovery()"
	var values [][]byte
	set := func(name, value string) {
		values = append(values, []byte(name), []byte(value))
		query += fmt.Sprintf(", set_config($%d, $%d, false)", len(values)-1, len(values))
	}
	for name, value := range parameters {
		set(name, value)
	}
	for name, since := range noLimit {
		if _, chosen := parameters[name]; !chosen && majorVersion(server) >= since {
			set(name, "0")
		}
	}
	if _, chosen := parameters["synchronous_commit"]; !chosen { // with off, a crash loses accepted work
		query += ", CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END"
	}
	result := server.ExecParams(ctx, query, values, nil, nil, nil).Read()
	if result.Err != nil {
		return fmt.Errorf("set the parameters of the connection: %w", result.Err)
	}
	if readOnly {
		return nil
	}
	if string(result.Rows[0][0]) == "t" {
		return &fault.Error{Kind: fault.Unavailable, Code: "database_read_only", Message: messageReadOnly}
	}
	return refuseSplitReads(ctx, server)
}

// refuseSplitReads refuses a pooler such as Pgpool-II that sends SELECT to a standby, and only what it
// does not take for a read to the primary. It knows pg_is_in_recovery and set_config, and sends them to
// the primary, too.
func refuseSplitReads(ctx context.Context, server *pgconn.PgConn) error {
	result := server.ExecParams(ctx, "SELECT current_setting('in_hot_standby')", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return fmt.Errorf("ask which server reads: %w", result.Err)
	}
	if string(result.Rows[0][0]) == "on" {
		return &fault.Error{Kind: fault.Unavailable, Code: "database_pooler", Message: "The pooler in front of PostgreSQL sends reads to a standby, which may answer with something old. " +
			"Let it send everything to the primary (Pgpool-II: load_balance_mode = off), or point LILAC_DB_URL at the primary itself."}
	}
	return nil
}
