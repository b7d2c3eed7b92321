package session_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
)

func TestConsumptionIsSummedUp(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin") // its clocks were set back on 25 October 2026
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 26, 8, 0, 0, 0, zone)
	at := func(day, hour int) int64 { return time.Date(2026, 10, day, hour, 30, 0, 0, zone).UnixMilli() }
	used := func(tokens, cost int64) chat.Usage { return chat.Usage{InputTokens: tokens, CostMicros: cost} }
	got := session.SumUp([]session.Consumed{
		{at(24, 0), "a/small", "web", used(10, 1)},
		{at(24, 23), "a/small", "discord", used(20, 2)},
		{at(26, 7), "b/large", "web", used(5, 50)},
		{at(26, 7), "", "web", used(0, 0)},
	}, now, 3)
	want := session.Consumption{
		Days: []session.Share{
			{Name: "2026-10-24", Requests: 2, Usage: used(30, 3)},
			{Name: "2026-10-25"},
			{Name: "2026-10-26", Requests: 2, Usage: used(5, 50)},
		},
		Models: []session.Share{
			{Name: "b/large", Requests: 1, Usage: used(5, 50)},
			{Name: "a/small", Requests: 2, Usage: used(30, 3)},
			{Name: "", Requests: 1},
		},
		Clients: []session.Share{
			{Name: "web", Requests: 3, Usage: used(15, 51)},
			{Name: "discord", Requests: 1, Usage: used(20, 2)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if first := session.FirstDay(now, 3); !first.Equal(time.Date(2026, 10, 24, 0, 0, 0, 0, zone)) {
		t.Errorf("the period begins at %v", first)
	}
}
