package agent

// stepSeparator stands between the texts of two steps of a request.
const stepSeparator = "\n\n"

// JoinText appends the text of a step to the text of a request. It is how the
// run builds its text and its offsets, so whoever rebuilds a request's text
// from journaled steps gets the same bytes.
func JoinText(prev, stepText string) string {
	if prev == "" || stepText == "" {
		return prev + stepText
	}
	return prev + stepSeparator + stepText
}
