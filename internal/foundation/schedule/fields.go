package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// cronFields are the fields of a cron expression, in order, with their ranges.
var cronFields = []struct {
	name      string
	low, high int
}{{"minute", 0, 59}, {"hour", 0, 23}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 7}}

// fieldOutOfRange describes the first number of a cron expression that its field does not
// allow, or a wrong number of fields. It returns "" if that is not the problem.
func fieldOutOfRange(expression string) string {
	fields := strings.Fields(expression)
	if strings.HasPrefix(expression, "@") || len(fields) == 0 {
		return ""
	}
	if len(fields) != len(cronFields) {
		return fmt.Sprintf("it has %d fields, but needs five: minute, hour, day of the month, month, day of the week", len(fields))
	}
	for i, f := range cronFields {
		for part := range strings.SplitSeq(fields[i], ",") {
			part, _, _ = strings.Cut(part, "/")
			for end := range strings.SplitSeq(part, "-") {
				if n, err := strconv.Atoi(end); err == nil && (n < f.low || n > f.high) {
					return fmt.Sprintf("%d is not a valid %s (%d to %d)", n, f.name, f.low, f.high)
				}
			}
		}
	}
	return ""
}
