// Package health says whether the program works, from work that was observed:
// each part has a probe that makes it do something, again and again, and the
// report holds what came of it. A probe that does not come back is a failure
// too, and so is a report that nobody renews. Reading the report costs nothing
// and touches no part, so that it may be public.
package health
