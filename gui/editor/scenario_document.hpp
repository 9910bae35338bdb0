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
    bool isModified() const { return text_ != saved_; }
    const std::string& saved() const { return saved_; } // the text as it was read or last written
    bool differsOnDisk() const;                         // another program has written other text to the file since
    // The scenario of the text as it stands, or why there is none (the parser's problems, and what cannot be lowered yet).
    const ParseResult& parsed() const { return parsed_; }
    QUndoStack& undoStack() { return *undo_; }

    // Replaces the document and forgets its history. path: where it is from, "" for a new one.
    void load(const std::string& text, const QString& path, const std::string& base_dir);

    // Changes, each one step to undo. Text typed in one go is one step, and so are changes of a field that carry one number (not 0): what
    // is done to it from the moment that its editor opens until it closes.
    void type(const std::string& text);
    bool setField(const std::string& pointer, const std::string& value, const QString& what, int edit = 0); // value: JSON
    bool resetField(const std::string& pointer, const QString& what, int edit = 0);
    void replace(const std::string& text, const QString& what, int edit = 0);
    QString readAgain(); // what the file holds now, as a step that can be undone; the reason where it cannot be read

    // Writes the file, whole or not at all. The reason where it could not.
    QString save(const QString& path);

  Q_SIGNALS:
    void changed();  // text, problems and all
    void replaced(); // by load(): not an edit
    void saveStateChanged();

  private:
    friend class EditCommand;
    void assign(const std::string& text);
    void parse();

    std::string text_, saved_, base_dir_;
    QString path_;
    ParseResult parsed_;
    QUndoStack* undo_;
};

} // namespace orrery
