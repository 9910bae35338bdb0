#include "gui/editor/scenario_document.hpp"

#include "gui/editor/json_place.hpp"
#include "sim/scenario/sweep.hpp"

#include <QFileInfo>
#include <QSaveFile>
#include <QUndoCommand>
#include <QUndoStack>

namespace orrery {

// The text before and after. Typing merges with the typing before it until something else happens.
class EditCommand : public QUndoCommand {
  public:
    EditCommand(ScenarioDocument& document, std::string after, const QString& what, bool typed)
        : QUndoCommand(what), document_(document), before_(document.text_), after_(std::move(after)), typed_(typed) {}

    int id() const override { return typed_ ? 1 : -1; }
    bool mergeWith(const QUndoCommand* next) override {
        after_ = static_cast<const EditCommand*>(next)->after_;
        return true;
    }
    void redo() override { document_.assign(after_); }
    void undo() override { document_.assign(before_); }

  private:
    ScenarioDocument& document_;
    std::string before_, after_;
    bool typed_;
};

ScenarioDocument::ScenarioDocument(QObject* parent) : QObject(parent), undo_(new QUndoStack(this)) {
    connect(undo_, &QUndoStack::cleanChanged, this, [this](bool clean) { Q_EMIT modifiedChanged(!clean); });
}

bool ScenarioDocument::isModified() const { return !undo_->isClean(); }

void ScenarioDocument::load(const std::string& text, const QString& path, const std::string& base_dir) {
    undo_->clear();
    path_ = path;
    base_dir_ = base_dir;
    assign(text);
    undo_->setClean();
    Q_EMIT replaced();
}

void ScenarioDocument::type(const std::string& text) {
    if (text != text_) undo_->push(new EditCommand(*this, text, tr("typing"), true));
}

void ScenarioDocument::replace(const std::string& text, const QString& what) {
    if (text != text_) undo_->push(new EditCommand(*this, text, what, false));
}

bool ScenarioDocument::setField(const std::string& pointer, const std::string& value, const QString& what) {
    const std::optional<std::string> text = with_value(text_, pointer, value);
    if (text) replace(*text, what);
    return text.has_value();
}

bool ScenarioDocument::resetField(const std::string& pointer, const QString& what) {
    const std::optional<std::string> text = without_value(text_, pointer);
    if (text) replace(*text, what);
    return text.has_value();
}

QString ScenarioDocument::save(const QString& path) {
    QSaveFile file(path);
    const auto size = static_cast<qint64>(text_.size());
    if (!file.open(QIODevice::WriteOnly) || file.write(text_.data(), size) != size || !file.commit())
        return tr("%1 could not be written: %2").arg(path, file.errorString());
    path_ = path;
    base_dir_ = QFileInfo(path).absolutePath().toStdString();
    undo_->setClean();
    return {};
}

void ScenarioDocument::assign(const std::string& text) {
    text_ = text;
    parse();
    Q_EMIT changed();
}

void ScenarioDocument::parse() {
    ParseOptions options;
    options.base_dir = base_dir_;
    if (is_sweep(text_)) { // its first point stands for it: what is wrong with the text itself is the sweep reader's to say
        const SweepResult sweep = parse_sweep(text_, options);
        parsed_ = sweep.document ? parse_scenario(sweep.document->base_json(), options) : ParseResult{{}, sweep.problems};
    } else {
        parsed_ = parse_scenario(text_, options);
    }
    if (!parsed_.scenario) return;
    parsed_.problems = unsupported(*parsed_.scenario);
    if (!parsed_.problems.empty()) parsed_.scenario.reset();
}

} // namespace orrery
