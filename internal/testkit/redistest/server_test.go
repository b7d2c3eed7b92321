package redistest_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/testkit/redistest"
)

func TestWhatWasAppendedSurvivesAKill(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("RPUSH", "list", "one", "two\r\nlines")
	s.Kill()
	if _, err := s.TryDo("PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	if diff := cmp.Diff([]any{"one", "two\r\nlines"}, s.Do("LRANGE", "list", "0", "-1")); diff != "" {
		t.Error(diff)
	}
}

func TestAVolatileServerForgets(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Volatile: true})
	s.Do("SET", "key", "value")
	s.Kill()
	s.Restart()
	if got := s.Do("GET", "key"); got != nil {
		t.Errorf("it holds %v", got)
	}
}

func TestAServerLosesWhatCameAfterASnapshotOrEverything(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "early", "1")
	before := s.Snapshot()
	s.Do("SET", "late", "1")
	s.Rollback(before)
	if diff := cmp.Diff([]any{"early"}, s.Do("KEYS", "*")); diff != "" {
		t.Error(diff)
	}
	s.FlushAll()
	if got := s.Do("DBSIZE"); got != int64(0) {
		t.Errorf("it holds %v keys", got)
	}
}

func TestARunningServerForgetsWhatCameAfterItWasTold(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "early", "1")
	s.Remember()
	s.Do("SET", "late", "1")
	s.Do("DEL", "early")
	s.Forget()
	if diff := cmp.Diff([]any{"early"}, s.Do("KEYS", "*")); diff != "" {
		t.Error(diff)
	}
}

// Start must wait until the data is loaded: a server replies to some commands before.
func TestAServerThatIsStartedHasLoadedWhatItHas(t *testing.T) {
	const keys = 100_000
	s := redistest.Start(t, redistest.Options{})
	s.Do("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'key' .. i, i) end", "0", strconv.Itoa(keys))
	s.Kill()
	s.Restart()
	if got := s.Do("DBSIZE"); got != int64(keys) {
		t.Errorf("it holds %v keys, want %d", got, keys)
	}
}

func TestAPausedServerGoesOnWhereItWas(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Pause()
	s.Resume()
	if got := s.Do("INCR", "n"); got != int64(1) {
		t.Errorf("it counts %v", got)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	for name, o := range map[string]redistest.Options{
		"password":      {Password: "secret"},
		"user":          {User: "lilac", Password: "secret"},
		"user over TLS": {User: "lilac", Password: "secret", TLS: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, o)
			if got := s.Do("ECHO", "hello"); got != "hello" {
				t.Errorf("it answers %v", got)
			}
			if _, err := s.TryDoAs("", "", "DBSIZE"); err == nil {
				t.Error("a client without a password was served")
			}
		})
	}
}
