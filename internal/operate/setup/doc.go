// Package setup changes the configuration for people: the page and "lilac setup" use it.
//
// [Answers.Changes] turns what a person chose into changes of single keys and into secrets, [Edit]
// makes the changes in the text of the file, and [Diff] shows them. These functions are pure. Edit
// keeps comments, order, and layout; it checks its own result, and refuses a file whose layout it
// does not understand instead of damaging it.
//
// A [Store] reads and writes the files: the configuration, its previous version beside it
// (config.yaml.old), and the secrets in the data directory, which only their owner can read. A
// Store has no state and no goroutines. The caller serializes writes; Write refuses to overwrite a
// file that changed since it was read.
package setup
