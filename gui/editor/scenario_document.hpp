// The scenario under edit: one text, which form and text editor both show and change; its undo stack; what the parser says of it.
// No widgets here.
#pragma once

#include <QObject>
#include <QString>

#include "sim/scenario/parse.hpp" // behind Qt: moc 6.4 cannot read <concepts> before it

#include <string>

class QUndoStack;

namespace orrery {

class ScenarioDocument : public QObject {
    Q_OBJECT
  public:
    explicit ScenarioDocument(QObject* parent = nullptr);

    const std::string& text() const { return text_; }
    const std::string& baseDir() const { return base_dir_; }
    const QString& path() const { return path_; }
    bool isModified() const;
    // Of the text as it stands: the scenario, or why not (the parser's problems, and what cannot be lowered yet).
    const ParseResult& parsed() const { return parsed_; }
    QUndoStack& undoStack() { return *undo_; }

    // Replaces the document and forgets its history. path: where it is from, "" for a new one.
    void load(const std::string& text, const QString& path, const std::string& base_dir);

    // Changes, each one step to undo. Text typed in one go is one step.
    void type(const std::string& text);
    bool setField(const std::string& pointer, const std::string& value, const QString& what); // value: JSON
    bool resetField(const std::string& pointer, const QString& what);
    void replace(const std::string& text, const QString& what);

    // Writes the file, whole or not at all. The reason where it could not.
    QString save(const QString& path);

  Q_SIGNALS:
    void changed();  // text, problems and all
    void replaced(); // by load(): not an edit
    void modifiedChanged(bool modified);

  private:
    friend class EditCommand;
    void assign(const std::string& text);
    void parse();

    std::string text_, base_dir_;
    QString path_;
    ParseResult parsed_;
    QUndoStack* undo_;
};

} // namespace orrery
