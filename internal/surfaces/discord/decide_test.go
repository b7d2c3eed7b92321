package discord

import (
	"testing"
	"time"
)

func TestHowManyConnectionsABotNeeds(t *testing.T) {
	for _, c := range []struct {
		name                    string
		have, recommended, want int
	}{
		{"Discord knows", 1, 3, 3},
		{"Discord recommends no more than there are", 3, 3, 6},
		{"Discord recommends nothing", 1, 0, 2},
		{"as many as Lilac keeps", 1, 16, 16},
		{"too many", 1, 17, 0},
		{"too many, because twice as many are tried", 9, 1, 0},
	} {
		if got, err := decideShards(c.have, c.recommended); got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d connections, %v; want %d", c.name, got, err, c.want)
		}
	}
}

func TestAllConnectionsTogetherStayBelowDiscordsLimitOfADay(t *testing.T) {
	one := IdentifyLimit{Burst: identifyBurst, Every: identifyEvery, MinInterval: identifyInterval}
	for connections := 1; connections <= maxShards; connections++ {
		all := one.shared(connections)
		if day := all.Burst + int(24*time.Hour/all.Every); day > 800 || all.Burst < connections || all.MinInterval != one.MinInterval {
			t.Errorf("%d connections begin %d sessions a day, with the limit %+v", connections, day, all)
		}
	}
}
