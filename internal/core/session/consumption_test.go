package session_test

import (
	"fmt"
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
		{CreatedAt: at(24, 0), Model: "a/small", Client: "web", SessionID: "s1", TookMs: 100, Usage: used(10, 1)},
		{CreatedAt: at(24, 23), Model: "a/small", Client: "discord", SessionID: "s2", Rule: "ci", TookMs: 300, Usage: used(20, 2)},
		{CreatedAt: at(26, 7), Model: "b/large", Client: "web", SessionID: "s1", TookMs: 200, Usage: used(5, 50)},
		{CreatedAt: at(26, 7), Client: "web", SessionID: "s1"},
		{CreatedAt: at(26, 7), Model: "b/large", Client: "web", SessionID: "s1", Purpose: session.PurposeTitle, Usage: used(1, 5)},
	}, now, 3)
	took := func(median, most int64) *session.Latency { return &session.Latency{MedianMs: median, P95Ms: most} }
	group := func(s session.Share, days ...session.Share) session.ShareGroup {
		return session.ShareGroup{Share: s, Days: days}
	}
	first := func(requests int, usage chat.Usage, l *session.Latency) session.Share {
		return session.Share{Name: "2026-10-24", Requests: requests, Usage: usage, Latency: l}
	}
	last := func(requests int, usage chat.Usage, l *session.Latency) session.Share {
		return session.Share{Name: "2026-10-26", Requests: requests, Usage: usage, Latency: l}
	}
	want := session.Consumption{
		Days: []session.Share{first(2, used(30, 3), took(300, 300)), {Name: "2026-10-25"}, last(2, used(6, 55), took(200, 200))},
		Models: []session.ShareGroup{
			group(session.Share{Name: "b/large", Requests: 1, Usage: used(6, 55), Latency: took(200, 200)}, last(1, used(6, 55), took(200, 200))),
			group(session.Share{Name: "a/small", Requests: 2, Usage: used(30, 3), Latency: took(300, 300)}, first(2, used(30, 3), took(300, 300))),
			group(session.Share{Name: "", Requests: 1}, last(1, chat.Usage{}, nil)),
		},
		Clients: []session.ShareGroup{
			group(session.Share{Name: "web", Requests: 3, Usage: used(16, 56), Latency: took(200, 200)}, first(1, used(10, 1), took(100, 100)), last(2, used(6, 55), took(200, 200))),
			group(session.Share{Name: "discord", Requests: 1, Usage: used(20, 2), Latency: took(300, 300)}, first(1, used(20, 2), took(300, 300))),
		},
		Channels: []session.ShareGroup{
			group(session.Share{Name: "s1", Requests: 3, Usage: used(16, 56), Latency: took(200, 200)}, first(1, used(10, 1), took(100, 100)), last(2, used(6, 55), took(200, 200))),
			group(session.Share{Name: "s2", Requests: 1, Usage: used(20, 2), Latency: took(300, 300)}, first(1, used(20, 2), took(300, 300))),
		},
		Rules: []session.ShareGroup{
			group(session.Share{Name: "", Requests: 3, Usage: used(16, 56), Latency: took(200, 200)}, first(1, used(10, 1), took(100, 100)), last(2, used(6, 55), took(200, 200))),
			group(session.Share{Name: "ci", Requests: 1, Usage: used(20, 2), Latency: took(300, 300)}, first(1, used(20, 2), took(300, 300))),
		},
		Purposes: []session.Share{{Name: "title", Requests: 1, Usage: used(1, 5)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if begin := session.FirstDay(now, 3); !begin.Equal(time.Date(2026, 10, 24, 0, 0, 0, 0, zone)) {
		t.Errorf("the period begins at %v", begin)
	}
}

// Of many groups, the most expensive are listed, and only the first of them with their days.
func TestSmallGroupsAreSummedUpTogether(t *testing.T) {
	now := time.Date(2026, 10, 26, 8, 0, 0, 0, time.UTC)
	var used []session.Consumed
	for i := range 60 {
		used = append(used, session.Consumed{CreatedAt: now.UnixMilli(), SessionID: fmt.Sprint("s", i), TookMs: int64(i + 1), Usage: chat.Usage{CostMicros: int64(100 - i)}})
	}
	got := session.SumUp(used, now, 1).Channels
	if len(got) != 51 || got[0].Name != "s0" || got[50].Name != session.OtherGroups || got[50].Requests != 10 || got[50].Usage.CostMicros != 455 || got[50].Latency.MedianMs != 56 {
		t.Errorf("%d groups, the last is %+v", len(got), got[len(got)-1])
	}
	if len(got[5].Days) != 1 || len(got[6].Days) != 0 {
		t.Errorf("the days of the sixth and seventh: %v, %v", got[5].Days, got[6].Days)
	}
}
