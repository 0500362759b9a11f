// What a disk may hold after a loss of power. Files are recorded as they are worked on; a model of the file
// system then tells which states are possible after each operation: what was not fsynced may be there, in
// part, or not at all, and names that were not made durable by an fsync of their directory may or may not be
// there, each for itself. After the method of SQLite's crash tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/temporary_directory.hpp"
#include "quern/base/files.hpp"

namespace quern::test {

struct Operation {
  enum class Kind { make_directory, create, write, preallocate, truncate, sync, rename, remove } kind;
  std::string path;         // relative to the root
  std::string to;           // rename
  std::string data;         // write
  std::uint64_t bytes = 0;  // write: where it begins; preallocate and truncate: the size
};

/// Works on the disk and remembers what changed below `root`.
class RecordingFiles final : public Files {
 public:
  explicit RecordingFiles(std::filesystem::path root) : root_(std::move(root)) {}
  std::vector<Operation> operations;

 protected:
  int system_open(int directory, const char* path, int flags, mode_t mode) override {
    const bool is_new = (flags & O_CREAT) != 0 && kind(path) == EntryKind::missing;
    const int descriptor = Files::system_open(directory, path, flags, mode);
    if (descriptor < 0) return descriptor;
    open_[descriptor] = {relative(path), 0, (flags & O_APPEND) != 0};
    if (is_new) operations.push_back({Operation::Kind::create, relative(path), {}, {}});
    return descriptor;
  }
  ssize_t system_write(int descriptor, const void* data, std::size_t bytes) override {
    Open& to = open_.at(descriptor);
    if (to.appends) to.position = static_cast<std::uint64_t>(::lseek(descriptor, 0, SEEK_END));
    const ssize_t written = Files::system_write(descriptor, data, bytes);
    operations.push_back({Operation::Kind::write,
                          to.path,
                          {},
                          std::string(static_cast<const char*>(data), static_cast<std::size_t>(written)),
                          to.position});
    to.position += static_cast<std::uint64_t>(written);
    return written;
  }
  int system_preallocate(int descriptor, off_t bytes) override {
    operations.push_back(
        {Operation::Kind::preallocate, open_.at(descriptor).path, {}, {}, static_cast<std::uint64_t>(bytes)});
    return Files::system_preallocate(descriptor, bytes);
  }
  int system_truncate(int descriptor, off_t bytes) override {
    operations.push_back(
        {Operation::Kind::truncate, open_.at(descriptor).path, {}, {}, static_cast<std::uint64_t>(bytes)});
    return Files::system_truncate(descriptor, bytes);
  }
  int system_sync(int descriptor) override {
    operations.push_back({Operation::Kind::sync, open_.at(descriptor).path, {}, {}});
    return Files::system_sync(descriptor);
  }
  int system_rename(const char* from, const char* to, unsigned flags) override {
    const int result = Files::system_rename(from, to, flags);
    if (result == 0) operations.push_back({Operation::Kind::rename, relative(from), relative(to), {}});
    return result;
  }
  int system_unlink(int directory, const char* path, int flags) override {
    const std::string name =
        directory == AT_FDCWD ? relative(path) : open_.at(directory).path + "/" + std::string(path);
    const int result = Files::system_unlink(directory, path, flags);
    if (result == 0) operations.push_back({Operation::Kind::remove, name, {}, {}});
    return result;
  }
  int system_mkdir(const char* path, mode_t mode) override {
    const int result = Files::system_mkdir(path, mode);
    if (result == 0) operations.push_back({Operation::Kind::make_directory, relative(path), {}, {}});
    return result;
  }

 private:
  struct Open {
    std::string path;
    std::uint64_t position = 0;  // of the next write
    bool appends = false;
  };

  std::string relative(const std::filesystem::path& path) const {
    const std::string text = path.lexically_relative(root_).string();
    return text == "." ? std::string() : text;
  }

  std::filesystem::path root_;
  std::map<int, Open> open_;
};

/// A tree of files by path; directories end in '/'.
using Tree = std::map<std::string, std::string>;

class CrashModel {
 public:
  CrashModel() : root_(std::make_shared<Node>()) { root_->is_directory = true; }

  void apply(const Operation& operation, bool ignore_sync) {
    using Kind = Operation::Kind;
    switch (operation.kind) {
      case Kind::make_directory:
      case Kind::create: {
        auto node = std::make_shared<Node>();
        node->is_directory = operation.kind == Kind::make_directory;
        change(operation.path, {{}, leaf(operation.path), node});
        break;
      }
      case Kind::write: {
        Node& node = *find(operation.path);
        node.data.resize(std::max<std::size_t>(node.data.size(), operation.bytes + operation.data.size()));
        node.data.replace(operation.bytes, operation.data.size(), operation.data);
        break;
      }
      case Kind::preallocate: {
        Node& node = *find(operation.path);
        node.data.resize(std::max<std::size_t>(node.data.size(), operation.bytes));
        break;
      }
      case Kind::truncate: find(operation.path)->data.resize(operation.bytes); break;
      case Kind::sync: {
        if (ignore_sync) break;
        Node& node = *find(operation.path);
        node.durable_data = node.data;
        node.durable_names = node.names;
        node.pending.clear();
        break;
      }
      case Kind::rename:
        change(operation.path, {leaf(operation.path), leaf(operation.to), find(operation.path)});
        break;
      case Kind::remove: change(operation.path, {leaf(operation.path), {}, nullptr}); break;
    }
  }

  /// Calls `visit` for possible states until it returns false; returns whether it never did.
  bool visit_states(const std::function<bool(const Tree&)>& visit) const {
    std::vector<const Node*> directories;
    std::size_t pending = 0;
    collect(*root_, directories);
    for (const Node* directory : directories) pending += directory->pending.size();
    for (const std::vector<bool>& kept : subsets(pending)) {
      for (const Unsynced unsynced : {Unsynced::lost, Unsynced::zeros, Unsynced::torn, Unsynced::there}) {
        Tree tree;
        std::map<const Node*, std::size_t> first;
        std::size_t count = 0;
        for (const Node* directory : directories) {
          first[directory] = count;
          count += directory->pending.size();
        }
        build(*root_, "", kept, first, unsynced, tree);
        if (!visit(tree)) return false;
      }
    }
    return true;
  }

 private:
  struct Node;
  struct Change {
    std::string from;  // a name that goes, or empty
    std::string to;    // a name that comes, or empty
    std::shared_ptr<Node> node;
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  struct Node {
    bool is_directory = false;
    std::string data, durable_data;
    Names names, durable_names;
    std::vector<Change> pending;
  };
  enum class Unsynced { lost, zeros, torn, there };

  static std::string leaf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  std::shared_ptr<Node> find(const std::string& path) const {
    std::shared_ptr<Node> node = root_;
    for (const std::filesystem::path& part : std::filesystem::path(path))
      node = node->names.at(part.string());
    return node;
  }

  static void make(Names& names, const Change& change) {
    if (!change.from.empty()) names.erase(change.from);
    if (!change.to.empty()) names[change.to] = change.node;
  }

  void change(const std::string& path, Change change) {
    const std::size_t slash = path.rfind('/');
    Node& parent = *find(slash == std::string::npos ? "" : path.substr(0, slash));
    make(parent.names, change);
    parent.pending.push_back(std::move(change));
  }

  // Directories that exist or may come back, each once.
  static void collect(const Node& node, std::vector<const Node*>& out) {
    if (!node.is_directory || std::find(out.begin(), out.end(), &node) != out.end()) return;
    out.push_back(&node);
    for (const auto& [name, child] : node.names) collect(*child, out);
    for (const auto& [name, child] : node.durable_names) collect(*child, out);
    for (const Change& change : node.pending) {
      if (change.node) collect(*change.node, out);
    }
  }

  // None, all, each prefix, each one alone and each one missing.
  static std::set<std::vector<bool>> subsets(std::size_t count) {
    std::set<std::vector<bool>> out{std::vector<bool>(count, false), std::vector<bool>(count, true)};
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<bool> alone(count, false), missing(count, true), prefix(count, false);
      alone[i] = true;
      missing[i] = false;
      std::fill(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(i), true);
      out.insert({alone, missing, prefix});
    }
    return out;
  }

  // What is left of a file: what both its durable and its last content begin with, and of the rest what was
  // durable, zeros, a half, or all of it.
  static std::string left_of(const Node& node, Unsynced unsynced) {
    if (node.data == node.durable_data || unsynced == Unsynced::lost) return node.durable_data;
    const auto apart =
        std::mismatch(node.data.begin(), node.data.end(), node.durable_data.begin(), node.durable_data.end());
    const auto kept = static_cast<std::size_t>(apart.first - node.data.begin());
    const std::size_t rest = node.data.size() - kept;
    const std::size_t there = unsynced == Unsynced::there ? rest : unsynced == Unsynced::torn ? rest / 2 : 0;
    return node.data.substr(0, kept + there) + std::string(rest - there, '\0');
  }

  static void build(const Node& node, const std::string& path, const std::vector<bool>& kept,
                    std::map<const Node*, std::size_t>& first, Unsynced unsynced, Tree& tree) {
    if (!node.is_directory) {
      tree[path] = left_of(node, unsynced);
      return;
    }
    if (!path.empty()) tree[path + "/"] = "";
    Names names = node.durable_names;
    for (std::size_t i = 0; i < node.pending.size(); ++i) {
      if (kept[first[&node] + i]) make(names, node.pending[i]);
    }
    for (const auto& [name, child] : names) {
      build(*child, path.empty() ? name : path + "/" + name, kept, first, unsynced, tree);
    }
  }

  std::shared_ptr<Node> root_;
};

/// Makes the tree real in an empty directory.
inline void materialise(const Tree& tree, const std::filesystem::path& root) {
  for (const auto& [path, data] : tree) {
    if (path.back() == '/') {
      std::filesystem::create_directories(root / path);
    } else {
      put(root / path, data);
    }
  }
}

}  // namespace quern::test
