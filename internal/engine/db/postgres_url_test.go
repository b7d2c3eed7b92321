package db_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/faultproxy"
)

// A URL that cannot be used is refused with the reason, such as a file that is missing, and without its
// password.
func TestAURLThatCannotBeUsedSaysWhy(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.pem")
	if err := os.WriteFile(broken, []byte("this is no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	certificate, encrypted := filepath.Join(t.TempDir(), "a.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: certified.Certificate().Raw},
		encrypted:   {Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("PKCS #8")},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for parameters, want := range map[string]string{
		"sslmode=require&sslcert=" + certificate + "&sslkey=" + encrypted: "openssl pkey -traditional",
		"sslmode=verify-full&sslrootcert=/nothing.crt":                    "open /nothing.crt: no such file",
		"sslmode=verify-full&sslrootcert=" + broken:                       "unable to add CA to cert pool",
		"sslmode=require&sslcert=/a.crt":                                  `both "sslcert" and "sslkey" are required`,
		"sslmode=require&sslcert=/a.crt&sslkey=" + broken:                 "failed to decode sslkey",
		"sslmode=nonsense":                                   "sslmode is invalid",
		"connect_timeout=abc":                                "invalid connect_timeout",
		"target_session_attrs=primry":                        "primry",
		"service=nothing&servicefile=" + broken + ".nothing": "failed to read service",
	} {
		_, err := db.ExamineServer(t.Context(), "postgres://lilac:hunter2@127.0.0.1:1/lilac?"+parameters, tables)
		wire := fault.ToWire(err)
		if wire.Kind != fault.Invalid || !strings.Contains(wire.Message, want) {
			t.Errorf("%s: %+v, want %q", parameters, wire, want)
		}
		if strings.Contains(wire.Message, "hunter2") || strings.Contains(wire.Message, "postgres://") {
			t.Errorf("%s: %q shows the URL", parameters, wire.Message)
		}
	}
}

// The reason for which a server cannot be reached is named, without its address.
func TestTheReasonOfAnUnreachableServerIsNamed(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://lilac@127.0.0.1:1/lilac":               "cannot be reached: connection refused. Check",
		"postgres://lilac@host.invalid/lilac":              "cannot be reached: ",
		"postgres:///lilac?user=lilac&host=" + t.TempDir(): "cannot be reached: no such file or directory. Check",
		"postgres://lilac@127.0.0.1:1,127.0.0.1:1/lilac":   "cannot be reached: connection refused. Check",
	} {
		_, err := db.ExamineServer(t.Context(), url, tables)
		wire := fault.ToWire(err)
		if !strings.Contains(wire.Message, want) || strings.Contains(wire.Message, "127.0.0.1") || strings.Contains(wire.Message, "host.invalid") {
			t.Errorf("%s: %+v, want %q", url, wire, want)
		}
	}
}

// Parameters of libpq that need nothing here are not sent to the server; what the server refuses is named.
func TestParametersThatTheServerDoesNotKnow(t *testing.T) {
	url := startPostgres(t).URL("one")
	for parameters, want := range map[string]string{
		"gssencmode=prefer&keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=3":  "",
		"tcp_user_timeout=5000&load_balance_hosts=random&sslcompression=0&fallback_application_name=x": "",
		"gssencmode=require": `"gssencmode"`,
		"sslcrl=/a.crl":      `"sslcrl"`,
		"schema=one":         `"schema". Change or remove it. To choose a schema, use search_path`,
		"work_mem=lots":      `"work_mem"`,
	} {
		_, err := db.ExamineServer(t.Context(), url+"&"+parameters, tables)
		wire := fault.ToWire(err)
		if want == "" && strings.Contains(wire.Message, "parameter") || want != "" && (wire.Code != "database_parameter" || !strings.Contains(wire.Message, want)) {
			t.Errorf("%s: %+v, want %q", parameters, wire, want)
		}
	}
}

// The tables of another user of the same server are not those of another program.
func TestTheTablesOfAnotherUser(t *testing.T) {
	s := startPostgres(t)
	d, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Do("CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA one TO stranger"); err != nil {
		t.Fatal(err)
	}
	_, err = db.ExamineServer(t.Context(), strings.Replace(s.URL("one"), "postgres@", "stranger@", 1), tables)
	if wire := fault.ToWire(err); wire.Code != "database_rights" || !strings.Contains(wire.Message, "permission denied for table meta") {
		t.Errorf("%+v, want that the right is missing", wire)
	}
}

// Files that the URL names, such as certificates, the password, and a service, are read for each connection.
func TestFilesOfTheURLAreReadAgain(t *testing.T) {
	s := startPostgres(t)
	before, after := faultproxy.Start(t, s.Addr()), faultproxy.Start(t, s.Addr())
	file := filepath.Join(t.TempDir(), "services")
	lead := func(addr string) {
		host, port, err := net.SplitHostPort(addr)
		if err == nil {
			err = os.WriteFile(file, fmt.Appendf(nil, "[lilac]\nhost=%s\nport=%s\n", host, port), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	lead(before.Addr)
	d, err := onServer(t, s.Addr(), "one", func(o *db.Options) {
		o.URL = strings.Replace(o.URL, s.Addr(), "", 1) + "&service=lilac&servicefile=" + file
	})
	if err != nil {
		t.Fatal(err)
	}
	lead(after.Addr)
	before.Refuse()
	before.Cut()
	if err := put(d, "a"); err != nil {
		t.Errorf("after the file was replaced: %v", err)
	}
}
