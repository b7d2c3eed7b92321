package discordtest_test

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/disgoorg/disgo/rest"
	"github.com/disgoorg/snowflake/v2"
	"go.uber.org/goleak"

	"lilac/internal/testkit/discordtest"
)

func TestMain(m *testing.M) {
	// The library's rate limiter cleans its buckets in a goroutine that never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/disgoorg/disgo/rest.(*rateLimiterImpl).cleanup"))
}

var quiet = slog.New(slog.DiscardHandler)

const agent = "DiscordBot (https://example.org/lilac, 1)"

// inFakeTime runs a test in a synctest bubble, with a fake that uses in-memory pipes.
func inFakeTime(t *testing.T, o discordtest.Options, test func(t *testing.T, s *discordtest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Memory = true
		test(t, discordtest.New(t, o))
	})
}

// restOnly returns the library's REST client without its own rate limiter.
func restOnly(t *testing.T, s *discordtest.Server, opts ...rest.ClientConfigOpt) rest.Rest {
	t.Helper()
	transport := &http.Transport{DialContext: s.Dial}
	t.Cleanup(transport.CloseIdleConnections)
	return rest.New(rest.NewClient(discordtest.DefaultToken, append([]rest.ClientConfigOpt{
		rest.WithURL(s.APIURL), rest.WithUserAgent(agent), rest.WithLogger(quiet),
		rest.WithRateLimiter(rest.NewNoopRateLimiter()), rest.WithHTTPClient(&http.Client{Transport: transport}),
	}, opts...)...))
}

func id(s string) snowflake.ID { return snowflake.MustParse(s) }

func ptr[T any](v T) *T { return &v }
