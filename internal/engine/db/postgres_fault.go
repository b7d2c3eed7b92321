package db

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"lilac/internal/foundation/fault"
)

// lostError is an error of the connection: the server did not answer, or ended it.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

func isLost(err error) bool {
	var e *lostError
	return errors.As(err, &e)
}

// lost reports whether a connection cannot be used after an error.
func lost(err error) bool {
	var e *pgconn.PgError
	return !errors.As(err, &e) || e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC"
}

func isPostgresError(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) || isLost(err)
}

// The error codes of PostgreSQL that have their own sentence or treatment (PostgreSQL
// documentation, appendix A).
const (
	codeDiskFull          = "53100"
	codeTooManyConnected  = "53300"
	codeReadOnly          = "25006"
	codeNoPrivilege       = "42501"
	codeNoDatabase        = "3D000"
	codeNoSchema          = "3F000" // there is none, or the user may not use it
	codeNoTable           = "42P01"
	codeNoColumn          = "42703"
	codeStarting          = "57P03"
	codeCancelled         = "57014" // by a time limit, or by somebody
	codeLockTimeout       = "55P03"
	codeSerialization     = "40001"
	codeDeadlock          = "40P01"
	codeUndefined         = "42704" // of a connection: a parameter
	codeInvalidParameter  = "22023"
	codeUnique            = "23505"
	codeCheckViolation    = "23514"
	codeUnexpected        = "LX001" // of lilac_expect
	classAuthentication   = "28"
	classOperator         = "57" // shut down or cancelled by an operator
	fenceConstraint       = "writers_epoch"
	messageReadOnly       = "PostgreSQL is read-only: it is a standby, or it has been set so. Point LILAC_DB_URL at the primary, or make it writable again."
	messageAnotherProcess = "Another process has taken over the database. This one writes nothing more; it must be stopped or started again."
)

func pgCode(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func isPostgresFull(err error) bool { return pgCode(err) == codeDiskFull }

// isFenced reports whether a commit was refused because another process owns the data.
func isFenced(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeCheckViolation && e.ConstraintName == fenceConstraint
}

// postgresFault wraps an error of PostgreSQL in a fault that says what to do. A fault
// stays as it is.
func postgresFault(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		if errors.As(err, new(*pgconn.ConnectError)) {
			return f // of configure: the text around it is for developers of pgconn
		}
		return err
	}
	unavailable := func(code, message string) error {
		return &fault.Error{Kind: fault.Unavailable, Code: code, Message: message, Err: err}
	}
	switch code := pgCode(err); {
	case isFenced(err):
		return &fault.Error{Kind: fault.Unavailable, Code: CodeTakenOver, Message: messageAnotherProcess, Err: err}
	case code == codeDiskFull:
		return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %w", syscall.ENOSPC, err), "The disk of PostgreSQL is full: free some space.")
	case code == codeTooManyConnected:
		return unavailable("database_connections", "PostgreSQL accepts no more connections. Raise max_connections or the limit of the user, or end other connections.")
	case code == codeReadOnly:
		return unavailable("database_read_only", messageReadOnly)
	case code == codeNoSchema:
		return unavailable("database_rights", "The schema does not exist, or the user of the database may not use it: "+pgMessage(err)+". Create the schema with CREATE SCHEMA, and choose it with search_path in LILAC_DB_URL. Grant it, with USAGE and CREATE, to the user.")
	case code == codeNoPrivilege:
		return unavailable("database_rights", "The user of the database lacks a right: "+pgMessage(err)+". Grant it USAGE and CREATE on the schema, and the ownership of its tables.")
	case code == codeNoDatabase:
		return unavailable("database_missing", "PostgreSQL has no such database: "+pgMessage(err)+". Create it with createdb.")
	case code == codeNoTable, code == codeNoColumn:
		return unavailable("database_changed", "Somebody has changed Lilac's tables in PostgreSQL: "+pgMessage(err)+". Put them back, or restore a backup of the database.")
	case code == codeCancelled, code == codeLockTimeout:
		return unavailable("database_cancelled", "PostgreSQL has cancelled a statement: "+pgMessage(err)+". If LILAC_DB_URL has a time limit, such as statement_timeout, raise it.")
	case code == codeStarting, strings.HasPrefix(code, classOperator):
		return unavailable("database_restarting", "PostgreSQL is being started, stopped or restarted. Lilac tries again.")
	case strings.HasPrefix(code, classAuthentication):
		return unavailable("database_login", "PostgreSQL refused the login: "+pgMessage(err)+". Check user, password and pg_hba.conf.")
	case errors.As(err, new(*pgconn.ConnectError)) && (code == codeUndefined || code == codeInvalidParameter):
		return &fault.Error{Kind: fault.Invalid, Code: "database_parameter", Err: err, Message: "PostgreSQL does not accept a parameter of LILAC_DB_URL: " + pgMessage(err) +
			". Change or remove it. To choose a schema, use search_path."}
	case errors.As(err, new(*pgconn.ConnectError)) && code != "":
		return unavailable("database_refused", "PostgreSQL, or a pooler in front of it, refused the connection: "+pgMessage(err)+".")
	case code != "":
		return unavailable("", "The database cannot be written.")
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return unavailable("database_certificate", fmt.Sprintf("The certificate of PostgreSQL is not accepted: %v. Check the host name in LILAC_DB_URL, and its sslmode and sslrootcert.", certificate.Err))
	}
	var peer *net.OpError
	if errors.As(err, &peer) && peer.Op == "remote error" { // crypto/tls has no type for an alert
		return unavailable("database_certificate", fmt.Sprintf("PostgreSQL refused the TLS connection: %v. Check that sslcert in LILAC_DB_URL is a valid certificate from an authority in its ssl_ca_file, and sslkey its key.", peer.Err))
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return unavailable("database_slow", "PostgreSQL does not answer in time. Check its load, its locks, and its synchronous standby.")
	}
	return unavailable("database_unreachable", "PostgreSQL cannot be reached: "+innermost(err)+". Check that it runs and that LILAC_DB_URL is right.")
}

// innermost returns the text of the first error that err wraps. It contains no address and no user,
// because everyone can read /readyz.
func innermost(err error) string {
	for {
		var next error
		switch e := err.(type) {
		case *net.DNSError:
			return e.Err
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				next = all[0]
			}
		}
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// Passes reports whether an error is one of PostgreSQL that may pass without a change here, as during
// a failover.
func Passes(err error) bool {
	switch fault.ToWire(err).Code {
	case "database_restarting", "database_read_only", "database_unreachable", "database_slow", "database_connections", "database_refused":
		return true
	}
	return false
}

// CodeTakenOver is the code of the fault of a process whose database belongs to another
// process now.
const CodeTakenOver = "taken_over"

// pgMessage returns the message of the server. It contains no password.
func pgMessage(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
