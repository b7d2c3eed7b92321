package health

import (
	"testing"
	"time"
)

func TestComplaintIsReportedForADay(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	var c Complaint
	if got := c.Part("answers", "answers were refused", at); got.Status != OK {
		t.Fatalf("without trouble: %+v", got)
	}
	c.Add("First.", at.Add(-25*time.Hour))
	if got := c.Part("answers", "answers were refused", at); got.Status != OK {
		t.Fatalf("a day after the trouble: %+v", got)
	}
	c.Add("Give the bot a permission.", at)
	c.Add("Give the bot another permission.", at.Add(time.Minute))
	want := Part{Name: "answers", Status: Warning, Message: "answers were refused: 2 times, last at 2026-03-01 09:31 UTC. Give the bot another permission."}
	if got := c.Part("answers", "answers were refused", at.Add(time.Hour)); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
