// What the other end of a file descriptor can show, and text made safe for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern {

/// --color: `automatic` asks the environment and the descriptor.
enum class ColourPolicy { automatic, always, never };

/// "auto", "always", "never"; anything else is nothing.
std::optional<ColourPolicy> colour_policy(std::string_view name);

/// A descriptor as a place to write for people.
struct Terminal {
  int fd = 2;
  bool tty = false;     // a terminal at all
  bool live = false;    // a terminal on which a line can be redrawn (TERM is not "dumb")
  bool utf8 = false;    // the locale's character set
  bool colour = false;  // SGR sequences are wanted
  int width = 80;       // columns
};

/// Looks at descriptor `fd` and the environment. Colour: `policy` decides unless it is automatic; then
/// NO_COLOR (not empty) means none, CLICOLOR_FORCE (not empty, not "0") means colour, TERM=dumb means none,
/// and else a terminal gets colour. Width: see terminal_width. UTF-8: the character set of LC_ALL, LC_CTYPE
/// or LANG.
Terminal inspect_terminal(int fd, ColourPolicy policy = ColourPolicy::automatic);

/// Columns of the terminal at `fd`; of a non-terminal COLUMNS from the environment; 80 when neither says.
int terminal_width(int fd);

/// Rows of the terminal at `fd`; 0 when it is none or does not say.
int terminal_height(int fd);

/// `text` without what a terminal would obey: C0 and C1 controls, DEL, bidirectional controls, line and
/// paragraph separators and bytes that are not UTF-8 each become one U+FFFD; newline and tab stay. With
/// `ascii` every character beyond ASCII and everything replaced becomes '?'.
std::string harmless(std::string_view text, bool ascii = false);

/// Columns that harmless UTF-8 text of one line takes: 2 for East Asian wide characters and emoji, 0 for
/// combining marks, else 1.
int display_width(std::string_view text);

/// The longest beginning of `text` of at most `columns` columns; a cut text ends in '…', or '~' with `ascii`.
std::string fit(std::string_view text, int columns, bool ascii = false);

/// The same, but what is cut out is the middle: names that differ in their ends stay apart.
std::string fit_middle(std::string_view text, int columns, bool ascii = false);

}  // namespace quern
