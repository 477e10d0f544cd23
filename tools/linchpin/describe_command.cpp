// `linchpin completion` and `linchpin man`: what --help says, for a shell and for man(1). One source, the description
// CLI11 holds.
#include "commands.h"
#include "messages.h"

#include <linchpin/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// --name of each, --help too; arguments by place have none.
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// What an option or an argument may be, where that is a short list: CLI11 writes it {this,that} into the type.
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t from = type.find('{'), to = type.find('}');
  if (from == std::string::npos || to == std::string::npos) return {};
  std::string out = type.substr(from + 1, to - from - 1);
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

// For bash: verbs first; then what the option before may be, or the verb's options, and files.
void print_completion(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app)) names.push_back(verb->get_name());
  std::cout << "# bash completion of linchpin: source <(linchpin completion)\n"
               "_linchpin() {\n"
               "  local word=${COMP_WORDS[COMP_CWORD]} words=\"\" files=yes\n"
               "  if ((COMP_CWORD == 1)); then\n"
               "    words=\""
            << joined_words(names) << " " << joined_words(flags_of(app))
            << "\"\n"
               "  else\n"
               "    case \"${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";
  for (const CLI::App* verb : verbs_of(app))
    for (const CLI::Option* option : verb->get_options())
      if (const std::string values = values_of(*option); !values.empty() && !option->get_lnames().empty())
        std::cout << "      \"" << verb->get_name() << " --" << option->get_lnames().front()
                  << "\") COMPREPLY=($(compgen -W \"" << values << "\" -- \"$word\")); return ;;\n";
  std::cout << "    esac\n"
               "    case ${COMP_WORDS[1]} in\n";
  for (const CLI::App* verb : verbs_of(app)) {
    std::string values;
    for (const CLI::Option* option : verb->get_options())
      if (option->get_positional()) values += values_of(*option);
    std::cout << "      " << verb->get_name() << ") words=\"" << joined_words(flags_of(*verb))
              << (values.empty() ? "" : " " + values) << "\"" << (values.empty() ? "" : " files=") << " ;;\n";
  }
  std::cout << "    esac\n"
               "  fi\n"
               "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
               "  ((COMP_CWORD > 1)) && [[ $files && $word != -* ]] || return 0\n"
               "  local file\n"
               "  while IFS= read -r file; do COMPREPLY+=(\"$file\"); done < <(compgen -f -- \"$word\")\n"
               "}\n"
               "complete -o filenames -F _linchpin linchpin\n";
}

// What roff would read as a request, an escape or a hyphen.
std::string roff(const std::string& text) {
  std::string out;
  bool start = true;
  for (const char c : text) {
    if (start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    start = c == '\n';
  }
  return out;
}

void print_options(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    std::cout << ".TP\n.B " << roff(option->get_name(option->get_positional(), true)) << "\n"
              << roff(option->get_description())
              << (option->get_default_str().empty() ? "" : roff(" [" + option->get_default_str() + "]")) << "\n";
}

void print_man(const CLI::App& app) {
  std::cout << ".TH LINCHPIN 1 \"\" \"linchpin " LINCHPIN_VERSION
               "\"\n.SH NAME\nlinchpin \\- exact constraint forces for "
               "physics engines\n.SH SYNOPSIS\n.B linchpin\n.I COMMAND\n[options]\n.SH DESCRIPTION\n"
            << roff(app.get_description()) << "\n.SH COMMANDS\n";
  for (const CLI::App* verb : verbs_of(app)) {
    std::cout << ".SS linchpin " << verb->get_name() << "\n" << roff(verb->get_description()) << "\n";
    print_options(*verb);
    if (!verb->get_footer().empty()) std::cout << ".PP\n" << roff(verb->get_footer()) << "\n";
  }
  std::cout << ".SH EXIT STATUS\n" << roff(app.get_footer()) << "\n";
}

}  // namespace

void add_describe(CLI::App& app, int& exit_code) {
  const auto add = [&](const char* name, const char* what, void (*print)(const CLI::App&)) {
    CLI::App* verb = app.add_subcommand(name, what);
    verb->footer("Exit codes: 0 ok, 2 usage.");
    verb->callback([&app, &exit_code, print] {
      print(app);
      exit_code = exit_ok;
    });
  };
  add("completion", "Print a completion script for bash: source <(linchpin completion)", print_completion);
  add("man", "Print the manual page: linchpin man | man -l -", print_man);
}

}  // namespace linchpin::cli
