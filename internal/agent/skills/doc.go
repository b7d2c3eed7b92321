// Package skills finds skills: directories with a file SKILL.md that says how to do a kind of
// work, in the form of the public specification (agentskills.io), with scripts and other
// files beside it.
//
// Finding a skill reads files and never runs anything. A skill is untrusted until the
// operator trusts it: the agent learns nothing of it before. Trust holds for the hash of all
// files of the skill, so a skill that changes waits again; [Library.Read] compares the hash
// each time. Links are never followed. The number and the sizes of skills are bounded.
//
// [Parse] is lenient as the specification recommends: it accepts what other products accept,
// and reports what is wrong as notes.
//
// A [Library] is safe for concurrent use. It keeps nothing in memory, so that every call sees
// the files as they are.
package skills
