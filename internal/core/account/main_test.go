package account_test

import (
	"os"
	"testing"

	"lilac/internal/testkit/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Engines(m).Run()) }
