package conventions_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A type that does more than one thing is hard to understand as a whole.
const (
	maxMethods     = 40
	maxPortMethods = 8
)

// large lists the types above the limit. Do not add to it.
var large = map[string]bool{}

// sizes counts the methods of the named types below a directory, and those that the
// interfaces declare themselves. Keys are a package and a type. Files of tests do not
// count.
func sizes(t *testing.T, dir string) (methods, ports map[string]int) {
	t.Helper()
	methods, ports = map[string]int{}, map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[name(in, receiver(n.Recv.List[0].Type))]++
				}
				return false
			case *ast.TypeSpec:
				if port, ok := n.Type.(*ast.InterfaceType); ok {
					for _, m := range port.Methods.List {
						ports[name(in, n.Name.Name)] += len(m.Names)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return methods, ports
}

func name(dir, typeName string) string { return filepath.ToSlash(dir) + "." + typeName }

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestTypesAndPortsStaySmall(t *testing.T) {
	methods, ports := sizes(t, filepath.Join("..", ".."))
	for name, n := range methods {
		if n > maxMethods && !large[name] {
			t.Errorf("%s has %d methods; split it, so that no part has more than %d", name, n, maxMethods)
		}
		if n <= maxMethods && large[name] {
			t.Errorf("%s has only %d methods now; remove it from the list of large types", name, n)
		}
	}
	for name, n := range ports {
		if n > maxPortMethods {
			t.Errorf("the interface %s declares %d methods; split it, so that no part has more than %d", name, n, maxPortMethods)
		}
	}
}

func TestControlSizesCountMethodsAndPorts(t *testing.T) {
	methods, ports := sizes(t, filepath.Join("..", ".."))
	if got := methods["foundation/setting.Secret"]; got < 5 {
		t.Errorf("%d methods of a secret were counted, although it has more", got)
	}
	if got := ports["core/session.Observer"]; got < 1 {
		t.Error("no methods of the port session.Observer were counted")
	}
}

// maxTestLines bounds a file of tests.
const maxTestLines = 500

func TestFilesOfTestsStayShort(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", "..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if n := bytes.Count(data, []byte("\n")); n > maxTestLines {
			t.Errorf("%s has %d lines; split it by subject, so that no part has more than %d", path, n, maxTestLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 600 {
		t.Errorf("only %d files of tests were found", files)
	}
}

// costly has the functions whose code the compiler makes again for each type of element.
var costly = regexp.MustCompile(`\bslices\.Sort(Func|StableFunc|edFunc|edStableFunc)\(`)

func TestSortingIsCompiledOnce(t *testing.T) {
	for _, root := range []string{"internal", "cmd"} {
		err := fs.WalkDir(os.DirFS(filepath.Join("../../..", root)), ".", func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testkit":
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(filepath.Join("../../..", root, path))
			if costly.Match(text) {
				t.Errorf("%s/%s: sort with the package foundation/order instead of %s", root, path, costly.Find(text))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
